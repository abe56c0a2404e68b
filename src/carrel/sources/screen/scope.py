"""Scope of a screen source: what its target names, and the URIs of the places in it."""

from __future__ import annotations

import re
from typing import NamedTuple

from carrel.errors import ConfigError
from carrel.sources.alias import base_of
from carrel.sources.screen.desktop import Area, Desktop

__all__ = ["ScreenScope", "read_target"]

TARGET = re.compile(
    r"screen:(?:"
    r":(?P<display>\d{1,5})"
    r"|//(?:localhost(?::(?P<port>\d{1,5}))?)?(?P<path>/(?:display(?:/\d{1,3}|[1-9]\d{0,2})?|windows))?/?"
    r")?",
    re.ASCII | re.IGNORECASE,
)


class ScreenScope(NamedTuple):
    """Places that are shared: a display with its monitors, one monitor, or the windows of a display.

    ``number`` is the number of the X display, or None for the user's display.
    """

    uri: str
    number: int | None
    windows: bool = False
    monitor: int | None = None

    def areas(self, desktop: Desktop) -> dict[str, Area]:
        """Return the areas that are currently visible, by URI, sorted by URI. It blocks.

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


def read_target(target: str, alias: str | None = None) -> ScreenScope:
    """Parse a URL into a scope. If there is an alias, the URIs begin with it.

    ``screen:`` and ``screen://localhost/display`` are the display of the user, ``screen::1`` and
    ``screen://localhost:1/display`` the X display ``:1``; ``…/display/0`` is its first monitor alone, ``…/display1``
    too, and ``…/windows`` are its windows.

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
    path = (found["path"] or "/display").lower()
    kind, _, digits = path[1:].partition("/")
    monitor = int(digits) if digits else None
    if kind not in ("display", "windows"):
        monitor = int(kind.removeprefix("display")) - 1
    end = f"/{monitor}" if digits else ""
    uri = f"screen://localhost{'' if number is None else f':{number}'}/{kind}{end}"
    return ScreenScope(base_of("screen", alias) if alias else uri, number, kind == "windows", monitor)
