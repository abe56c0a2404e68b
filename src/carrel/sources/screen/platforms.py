"""Desktop of this platform: X11, Windows or macOS. Wayland is not supported."""

from __future__ import annotations

import os
import sys

from carrel.errors import ConfigError
from carrel.sources.screen.desktop import Desktop

__all__ = ["open_desktop"]


def open_desktop(number: int | None) -> Desktop:
    """Return the desktop, checking that Pillow is installed.

    Raises:
        ConfigError: the desktop is not available, or a package is missing.
    """
    try:
        import PIL  # noqa: F401

        return desktop_of(number)
    except ModuleNotFoundError as error:
        name = "pillow" if error.name == "PIL" else error.name
        raise ConfigError(f"screen: URLs need the package {name}: pip install 'carrel[screen]'") from None


def desktop_of(number: int | None) -> Desktop:
    """Return the X display of a number, or the user's desktop if it is None.

    Raises:
        ConfigError: the desktop is not available, or a package is missing. The message explains how to fix it.
    """
    if sys.platform in ("win32", "darwin"):
        if number is not None:
            raise ConfigError("screen: displays have numbers under X11 only; use screen://localhost/display")
        from carrel.sources.screen.native import NativeDesktop

        return NativeDesktop()
    if number is None:
        if os.environ.get("WAYLAND_DISPLAY") or os.environ.get("XDG_SESSION_TYPE") == "wayland":
            raise ConfigError(
                "screen: under Wayland, programs cannot take pictures of the screen; log in to a session of X11, "
                "or name an X display such as screen::1"
            )
        if not os.environ.get("DISPLAY"):
            raise ConfigError("screen: there is no display, as DISPLAY is not set; name one, such as screen::1")
    from carrel.sources.screen.x11 import X11Desktop

    return X11Desktop(None if number is None else f":{number}")
