"""X11 desktop, with xcffib: monitors from RandR, windows from EWMH.

Each call opens a separate connection, so that no state remains from a closed display, and threads share no connection.

https://specifications.freedesktop.org/wm-spec/latest/
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from carrel.errors import ConfigError
from carrel.sources.screen.desktop import Area, DesktopUnavailable, Pixels, checked

try:
    import xcffib
    import xcffib.randr
    import xcffib.xproto
except OSError as error:  # it loads libxcb
    raise ConfigError(f"screen: the library libxcb is missing (Debian: apt-get install libxcb1): {error}") from None

__all__ = ["X11Desktop"]

ANY = xcffib.xproto.GetPropertyType.Any
PLANES = 0xFFFFFFFF
HEADER = 32  # bytes of a reply before its data
MAX_PROPERTY = 65_536  # units of four bytes
MAX_TITLE = 200  # characters
#: Pixels as a little-endian number: the layout of every X server of today.
MASKS = (0xFF0000, 0x00FF00, 0x0000FF)


class X11Desktop:
    """X display with a name such as ``:1``, or the display in DISPLAY if the name is None."""

    def __init__(self, display: str | None) -> None:
        self._display = display

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            connection: Any = xcffib.connect(display=self._display)  # type: ignore[no-untyped-call]
        except xcffib.ConnectionException as error:
            shown = self._display or os.environ.get("DISPLAY", "")
            raise DesktopUnavailable(f"the X display {shown} cannot be reached: {reason(error)}") from None
        try:
            yield connection
        except xcffib.ConnectionException as error:
            raise DesktopUnavailable(f"the X display has gone: {reason(error)}") from None
        except xcffib.XcffibException as error:
            raise DesktopUnavailable(f"the X display answered {type(error).__name__}") from None
        finally:
            connection.disconnect()

    def monitors(self) -> tuple[Area, list[Area]]:
        """Return the whole display, and its monitors."""
        with self._connection() as connection:
            root = root_of(connection).root
            geometry = connection.core.GetGeometry(root).reply()
            whole = Area("", 0, 0, geometry.width, geometry.height)
            try:
                found = connection(xcffib.randr.key).GetMonitors(root, True).reply().monitors
            except xcffib.XcffibException:  # no RandR 1.5
                return whole, [whole]
            names = [connection.core.GetAtomName(one.name).reply().name for one in found]
            areas = [
                Area(bytes(name.raw).decode("utf-8", "replace"), one.x, one.y, one.width, one.height)
                for name, one in zip(names, found, strict=True)
            ]
            return whole, areas or [whole]

    def windows(self) -> list[Area]:
        """Return the visible windows that the window manager lists, or visible top-level windows without one."""
        with self._connection() as connection:
            return [area for id in top_windows(connection) if (area := described(connection, id)) is not None]

    def grab(self, area: Area) -> Pixels | None:
        """Return the pixels of an area; None for a window that is not shown any more.

        Pixels of a window outside the display are omitted. Without a compositor, covered pixels show the covering
        window.
        """
        with self._connection() as connection:
            screen = root_of(connection)
            left, top, width, height = checked(area)[1:5]
            drawable = screen.root
            if area.window is not None:
                try:
                    left, top, width, height = visible_part(connection, screen.root, area.window)
                except xcffib.Error:
                    return None
                drawable = area.window
            if width < 1 or height < 1:
                return None
            try:
                return image_of(connection, drawable, left, top, width, height)
            except xcffib.Error:
                if area.window is None:
                    raise
                return None


def root_of(connection: Any) -> Any:
    return connection.get_setup().roots[connection.pref_screen]


def reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def top_windows(connection: Any) -> list[int]:
    root = root_of(connection).root
    listed = property_of(connection, root, atom(connection, "_NET_CLIENT_LIST"))
    if listed is not None:
        return [int.from_bytes(listed[at : at + 4], sys.byteorder) for at in range(0, len(listed) - 3, 4)]
    return [int(id) for id in connection.core.QueryTree(root).reply().children]


def described(connection: Any, id: int) -> Area | None:
    """Return the name and the position of a window; None if it is not shown, or belongs to a menu or the like."""
    try:
        attributes = connection.core.GetWindowAttributes(id).reply()
        shown = attributes.map_state == xcffib.xproto.MapState.Viewable
        if not shown or attributes.override_redirect or attributes._class != xcffib.xproto.WindowClass.InputOutput:
            return None
        geometry = connection.core.GetGeometry(id).reply()
        position = connection.core.TranslateCoordinates(id, root_of(connection).root, 0, 0).reply()
        title = property_of(connection, id, atom(connection, "_NET_WM_NAME"))
        if title is None:
            title = property_of(connection, id, xcffib.xproto.Atom.WM_NAME) or b""
    except xcffib.Error:  # it has gone meanwhile
        return None
    text = title.decode("utf-8", "replace")[:MAX_TITLE]
    return Area(text, position.dst_x, position.dst_y, geometry.width, geometry.height, id)


def visible_part(connection: Any, root: int, id: int) -> tuple[int, int, int, int]:
    """Return the part of a window that is on the display: left, top, width and height, from the window's corner."""
    whole = connection.core.GetGeometry(root).reply()
    geometry = connection.core.GetGeometry(id).reply()
    position = connection.core.TranslateCoordinates(id, root, 0, 0).reply()
    left, top = max(0, -position.dst_x), max(0, -position.dst_y)
    right = min(geometry.width, whole.width - position.dst_x)
    bottom = min(geometry.height, whole.height - position.dst_y)
    return left, top, right - left, bottom - top


def image_of(connection: Any, drawable: int, left: int, top: int, width: int, height: int) -> Pixels:
    shape = xcffib.xproto.ImageFormat.ZPixmap
    asked = connection.core.GetImage(shape, drawable, left, top, width, height, PLANES)
    # xcffib's reply() converts the bytes to a list one by one. Use the raw reply, which has a header of 32 bytes.
    answer = connection.wait_for_reply(asked.sequence).buf
    header = bytes(answer[0:HEADER])
    check_layout(connection, header[1], int.from_bytes(header[8:12], sys.byteorder))
    return Pixels(width, height, bytes(answer[HEADER : HEADER + 4 * width * height]))


def check_layout(connection: Any, depth: int, visual: int) -> None:
    """Check that pixels are blue, green, red and an unused byte.

    Raises:
        DesktopUnavailable: they are not.
    """
    setup = connection.get_setup()
    sizes = {one.depth: one.bits_per_pixel for one in setup.pixmap_formats}
    kinds = {
        kind.visual_id: (kind.red_mask, kind.green_mask, kind.blue_mask)
        for one in root_of(connection).allowed_depths
        for kind in one.visuals
    }
    little = setup.image_byte_order == xcffib.xproto.ImageOrder.LSBFirst
    if sizes.get(depth) != 32 or kinds.get(visual) != MASKS or not little:
        raise DesktopUnavailable(f"pixels of {depth} bits in this layout cannot be read; 24 bits can")


def atom(connection: Any, name: str) -> int:
    return int(connection.core.InternAtom(True, len(name), name).reply().atom)


def property_of(connection: Any, window: int, name: int) -> bytes | None:
    if not name:
        return None
    found = connection.core.GetProperty(False, window, name, ANY, 0, MAX_PROPERTY).reply()
    return bytes(found.value.buf()) if found.type else None
