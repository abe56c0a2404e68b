"""X displays for tests: Xvfb, and programs that draw on it. Without Xvfb they install it, or say what to install."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import xcffib
import xcffib.randr
import xcffib.xproto

from support.debian import program

WIDTH, HEIGHT = 320, 240


class Display:
    """Display of Xvfb, with a connection that draws on it. Colours are 0xRRGGBB."""

    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.process = process
        self.connection: Any = xcffib.connect(display=f":{number}")
        self.core = self.connection.core
        self.root = self.connection.get_setup().roots[0].root
        self._visual = self.connection.get_setup().roots[0].root_visual

    def fill(self, drawable: int, colour: int, place: tuple[int, int, int, int]) -> None:
        """Fill a rectangle: left, top, width, height."""
        context = self.connection.generate_id()
        self.core.CreateGC(context, drawable, xcffib.xproto.GC.Foreground, [colour], is_checked=True).check()
        shape = xcffib.xproto.RECTANGLE.synthetic(*place)
        self.core.PolyFillRectangle(drawable, context, 1, [shape], is_checked=True).check()
        self.core.FreeGC(context, is_checked=True).check()

    def noise(self, drawable: int, width: int, height: int) -> None:
        """Fill a rectangle at the corner with pixels of no pattern, always the same."""
        context = self.connection.generate_id()
        self.core.CreateGC(context, drawable, 0, [], is_checked=True).check()
        data = Random(1).randbytes(4 * width * height)
        kind = xcffib.xproto.ImageFormat.ZPixmap
        self.core.PutImage(
            kind, drawable, context, width, height, 0, 0, 0, 24, len(data), data, is_checked=True
        ).check()
        self.core.FreeGC(context, is_checked=True).check()

    def window(self, title: str, colour: int, place: tuple[int, int, int, int]) -> int:
        """Show a window, filled with a colour, and return its id."""
        id: int = self.connection.generate_id()
        kind = xcffib.xproto.WindowClass.InputOutput
        self.core.CreateWindow(
            24, id, self.root, *place, 0, kind, self._visual, xcffib.xproto.CW.BackPixel, [colour], is_checked=True
        ).check()
        self.set_property(id, "_NET_WM_NAME", "UTF8_STRING", 8, title.encode())
        self.core.MapWindow(id, is_checked=True).check()
        return id

    def set_property(self, window: int, name: str, kind: str, bits: int, data: bytes) -> None:
        """Set a property of a window."""
        mode = xcffib.xproto.PropMode.Replace
        self.core.ChangeProperty(
            mode, window, self.atom(name), self.atom(kind), bits, len(data) * 8 // bits, data, is_checked=True
        ).check()

    def manage(self, *windows: int) -> None:
        """List windows as a window manager does."""
        data = b"".join(id.to_bytes(4, "little") for id in windows)
        self.set_property(self.root, "_NET_CLIENT_LIST", "WINDOW", 32, data)

    def monitor(self, name: str, place: tuple[int, int, int, int]) -> None:
        """Define a monitor by RandR."""
        left, top, width, height = place
        shape = xcffib.randr.MonitorInfo.synthetic(
            self.atom(name), False, False, 0, left, top, width, height, 100, 100, []
        )
        self.connection(xcffib.randr.key).SetMonitor(self.root, shape, is_checked=True).check()

    def atom(self, name: str) -> int:
        return int(self.core.InternAtom(False, len(name), name).reply().atom)

    def destroy(self, window: int) -> None:
        """Destroy a window."""
        self.core.DestroyWindow(window, is_checked=True).check()

    def hide(self, window: int) -> None:
        """Hide a window, as minimizing does."""
        self.core.UnmapWindow(window, is_checked=True).check()

    def stall(self) -> None:
        """Let the display answer nothing until ``go_on``."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the display answer again."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End the display."""
        self.process.terminate()
        self.process.wait(60)


def need_libraries_of_mss() -> None:
    """Install what mss loads under X11, where it is missing."""
    for name in ("randr", "render", "shm", "xfixes"):
        program(f"libxcb-{name}.so")


@contextmanager
def display(depth: int = 24, number: int | None = None) -> Iterator[Display]:
    """Run Xvfb until the end of the block. It chooses its number, unless one is given."""
    read, write = os.pipe()
    command = [program("Xvfb"), "-displayfd", str(write), "-screen", "0", f"{WIDTH}x{HEIGHT}x{depth}"]
    process = subprocess.Popen(
        [*command, "-nolisten", "tcp", "-noreset", *([] if number is None else [f":{number}"])],
        pass_fds=[write],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with open(read, "rb") as pipe:
            chosen = pipe.readline()
        assert chosen.strip().isdigit(), f"Xvfb has ended: {process.communicate(timeout=60)[1].decode()[-2000:]}"
        opened = Display(int(chosen), process)
        try:
            yield opened
        finally:
            opened.connection.disconnect()
    finally:
        process.terminate()
        process.communicate(timeout=60)
