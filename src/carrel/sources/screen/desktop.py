"""Desktop: cross-platform interface to the monitors and windows of one display, and their pixels.

``X11Desktop`` is for Linux and other Unix systems, ``NativeDesktop`` for Windows and macOS. Both block, and are
thread-safe.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Area", "Desktop", "DesktopUnavailable", "Pixels", "checked"]

#: More pixels than any screen has; their 400 MB would be held in memory.
MAX_PIXELS = 100_000_000


class DesktopUnavailable(Exception):
    """The display cannot be reached, or gives no pixels; the message is for the operator."""


class Area(NamedTuple):
    """Rectangle of a display, in pixels: all of it, a monitor, or the window with an id."""

    name: str
    left: int
    top: int
    width: int
    height: int
    window: int | None = None


class Pixels(NamedTuple):
    """Pixels in rows from the top, of four bytes each: blue, green, red, and an unused byte."""

    width: int
    height: int
    data: bytes


class Desktop(Protocol):
    """Display of which pictures can be taken.

    Raises:
        DesktopUnavailable: (each method) it is not there, or permits no pictures.
    """

    def monitors(self) -> tuple[Area, list[Area]]:
        """Return the whole display, and its monitors."""

    def windows(self) -> list[Area]:
        """Return the windows that are shown."""

    def grab(self, area: Area) -> Pixels | None:
        """Return the pixels of an area; None for a window that is not shown any more."""


def checked(area: Area) -> Area:
    """Return an area.

    Raises:
        DesktopUnavailable: it has more pixels than are read at once.
    """
    if area.width * area.height > MAX_PIXELS:
        raise DesktopUnavailable(f"{area.width} × {area.height} pixels are more than {MAX_PIXELS:,}")
    return area
