"""Scope of a screen source: what its target names, and the URIs of the places in it."""

from __future__ import annotations

import re
from typing import NamedTuple

from carrel.errors import ConfigError
from carrel.sources.screen.desktop import Area, Desktop

__all__ = ["Scope", "read_target"]

TARGET = re.compile(
    r"screen:(?:"
    r":(?P<display>\d{1,5})"
    r"|//(?:localhost(?::(?P<port>\d{1,5}))?)?(?P<path>/(?:display(?:/\d{1,3})?|windows))?/?"
    r")?",
    re.ASCII | re.IGNORECASE,
)


class Scope(NamedTuple):
    """Places that are shared: a display with its monitors, one monitor, or the windows of a display.

    ``number`` is that of the X display, None for the user's own.
    """

    uri: str
    number: int | None
    windows: bool = False
    monitor: int | None = None

    def areas(self, desktop: Desktop) -> dict[str, Area]:
        """Return what there is to be seen now, by its URI, in the order of URIs. It blocks.

        Raises:
            DesktopUnavailable: the display cannot be reached.
        """
        if self.windows:
            return dict(sorted((f"{self.uri}/{window.window:#x}", window) for window in desktop.windows()))
        whole, monitors = desktop.monitors()
        if self.monitor is not None:
            return {self.uri: monitors[self.monitor]} if self.monitor < len(monitors) else {}
        inside = [(f"{self.uri}/{at}", monitor) for at, monitor in enumerate(monitors)]
        return dict(sorted([(self.uri, whole), *inside]))

    @property
    def template(self) -> str:
        """URI template of the pictures."""
        inside = "/{window}" if self.windows else "{/monitor}" if self.monitor is None else ""
        return f"{self.uri}{inside}{{?width,format}}"


def read_target(target: str) -> Scope:
    """Return the scope that a URL names.

    ``screen:`` and ``screen://localhost/display`` are the display of the user, ``screen::1`` and
    ``screen://localhost:1/display`` the X display ``:1``; ``…/display/0`` is its first monitor alone, and ``…/windows``
    are its windows.

    Raises:
        ConfigError: it names something else.
    """
    found = TARGET.fullmatch(target)
    if found is None:
        raise ConfigError(
            "the screens of this machine are screen:, screen://localhost/display, "
            "screen://localhost/windows, or screen::1 for the X display :1"
        )
    text = found["display"] or found["port"]
    number = None if text is None else int(text)
    _, kind, *monitors = (found["path"] or "/display").lower().split("/")
    end = f"/{int(monitors[0])}" if monitors else ""
    uri = f"screen://localhost{'' if number is None else f':{number}'}/{kind}{end}"
    return Scope(uri, number, kind == "windows", int(monitors[0]) if monitors else None)
