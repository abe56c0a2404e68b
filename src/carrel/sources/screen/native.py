"""Desktop of Windows and macOS, by mss."""

from __future__ import annotations

import sys

from mss import MSS
from mss.exception import ScreenShotError

from carrel.errors import ConfigError
from carrel.sources.screen.desktop import Area, DesktopUnavailable, Pixels, checked

__all__ = ["NativeDesktop"]


class NativeDesktop:
    """Desktop of the user who runs this process. Its windows are not known one by one."""

    def monitors(self) -> tuple[Area, list[Area]]:
        """Return the whole desktop, and its monitors."""
        try:
            with MSS() as screen:
                whole, *each = [area_of(monitor) for monitor in screen.monitors]
        except (ScreenShotError, OSError) as error:
            raise DesktopUnavailable(str(error)) from None
        return whole, each or [whole]

    def windows(self) -> list[Area]:
        """Raise an error.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("screen: windows are shared under X11 only; use screen://localhost/display")

    def grab(self, area: Area) -> Pixels:
        """Return the pixels of an area."""
        if sys.platform == "darwin" and not permitted():
            raise DesktopUnavailable(
                "macOS does not permit it: allow screen recording for the program that starts this server in "
                "System Settings > Privacy & Security"
            )
        left, top, width, height = checked(area)[1:5]
        try:
            with MSS() as screen:
                taken = screen.grab({"left": left, "top": top, "width": width, "height": height})
        except (ScreenShotError, OSError) as error:
            raise DesktopUnavailable(str(error)) from None
        return Pixels(taken.width, taken.height, bytes(taken.raw))


def area_of(monitor: dict[str, int | str | bool]) -> Area:
    left, top, width, height = (int(monitor[name]) for name in ("left", "top", "width", "height"))
    return Area(str(monitor.get("name") or ""), left, top, width, height)


def permitted() -> bool:
    """Return whether macOS lets this process see other windows than its own: without that, pictures lack them."""
    import ctypes

    graphics = ctypes.CDLL("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics")
    graphics.CGPreflightScreenCaptureAccess.restype = ctypes.c_bool
    return bool(graphics.CGPreflightScreenCaptureAccess())
