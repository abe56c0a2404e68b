"""Progress bar on standard error of what takes long, only on a terminal: with rich if it is installed, else plain."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from carrel.columns import cut
from carrel.printable import printable

if TYPE_CHECKING:
    from carrel.client.results import Listing

__all__ = ["Bar", "State", "counted", "is_wanted"]

#: Seconds before anything is shown, so that what is quick shows nothing; and between two drawings.
DELAY = 0.4
INTERVAL = 0.1
#: Characters of the plain bar.
PLAIN = 20
LONGEST = 200

T = TypeVar("T")


class State(NamedTuple):
    """State that is shown: the work, how much of how much. ``total`` is None where it is not known."""

    about: str
    done: float | None = None
    total: float | None = None

    @property
    def share(self) -> float | None:
        """The share that is done, from 0 to 1."""
        if self.done is None or not self.total or self.total < 0:
            return None
        return min(max(self.done / self.total, 0.0), 1.0)

    def text(self) -> str:
        """Return the state in words, without control characters of a server."""
        about = printable(" ".join(self.about.split()), LONGEST)
        if self.done is None or self.share is not None:
            return about
        return f"{about} {self.done:,.10g}"


class Drawer(Protocol):
    """Shows a state on the terminal, again and again, and removes it."""

    def draw(self, state: State) -> None:
        """Show a state in place of the one before."""

    def end(self) -> None:
        """Remove what is shown."""


def is_wanted(*, quiet: bool = False, as_json: bool = False) -> bool:
    """Return whether there is a terminal for a bar: not where output goes into a pipe or is JSON, nor in a dumb one."""
    if quiet or as_json or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    try:
        return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


class Bar:
    """Progress bar of a command, to be entered within an event loop. What a command prints comes after ``stop``."""

    def __init__(self, *, wanted: bool, state: Callable[[], State] | None = None) -> None:
        self.wanted = wanted
        self._state = State("")
        self._source = state
        self._task: asyncio.Task[None] | None = None
        self._drawer: Drawer | None = None
        self._held = 0

    @classmethod
    def of(cls, options: argparse.Namespace) -> Bar:
        """Return the bar of a command with ``--quiet`` and ``--json``."""
        return cls(wanted=is_wanted(quiet=options.quiet, as_json=options.json))

    def __enter__(self) -> Bar:
        if self.wanted:
            self._task = asyncio.ensure_future(self._follow())
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def update(self, about: str, done: float | None = None, total: float | None = None) -> None:
        """Say what is being done, and how much of it is."""
        self._state = State(about, done, total)

    def stop(self) -> None:
        """Remove the bar for good."""
        if self._task is not None:
            self._task.cancel()
        self._remove()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        self._held += 1
        self._remove()
        try:
            yield
        finally:
            self._held -= 1

    def _remove(self) -> None:
        drawer, self._drawer = self._drawer, None
        if drawer is not None:
            drawer.end()

    async def _follow(self) -> None:
        await asyncio.sleep(DELAY)
        while True:
            state = self._state if self._source is None else self._source()
            if state.about and not self._held:
                self._drawer = self._drawer or make_drawer()
                self._drawer.draw(state)
            await asyncio.sleep(INTERVAL)


def room() -> int:
    """Return the width of a bar: it leaves room for the ``^C`` of the terminal, after which it is still one line."""
    return max(20, shutil.get_terminal_size().columns - 3)


def make_drawer() -> Drawer:
    try:
        return RichDrawer()
    except ImportError:
        return PlainDrawer()


class RichDrawer:
    """Bar drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        about = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=about),
            BarColumn(bar_width=PLAIN),
            TextColumn("{task.fields[share]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr, width=room()),
            transient=True,
            redirect_stdout=False,
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, share="")
        self._progress.start()

    def draw(self, state: State) -> None:
        """Show a state in place of the one before."""
        share = state.share
        options: dict[str, Any] = {"total": None} if share is None else {"total": 1.0, "completed": share}
        self._progress.update(self._task, description=state.text(), share=percentage(share), **options)

    def end(self) -> None:
        """Remove what is shown."""
        self._progress.stop()


class PlainDrawer:
    """Bar of characters in one line. Lines that are written to standard error meanwhile come above it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._out = sys.stderr
        sys.stderr = Above(self._out)

    def draw(self, state: State) -> None:
        """Show a state in place of the one before."""
        share = state.share
        bar = "" if share is None else f"[{'#' * round(share * PLAIN):-<{PLAIN}}] {percentage(share)} "
        line = f"{bar}{state.text()}"
        seconds = f" {time.monotonic() - self._began:.0f} s"
        line = cut(line, room() - len(seconds))
        encoding = self._out.encoding or "ascii"
        self._out.write(f"\r\x1b[K{line}{seconds}".encode(encoding, "replace").decode(encoding))
        self._out.flush()

    def end(self) -> None:
        """Remove what is shown."""
        sys.stderr = self._out
        self._out.write("\r\x1b[K")
        self._out.flush()


class Above:
    """Standard error while a plain bar is shown: each text takes the place of the bar, which is drawn again below."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write a text where the bar was."""
        return self._out.write(f"\r\x1b[K{text}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def percentage(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


async def counted(listing: Listing[T], bar: Bar, about: str, *, before: int = 0) -> list[T]:
    """Return a whole list, and show how many entries have arrived."""
    found: list[T] = []
    bar.update(about, before)
    async for item in listing:
        found.append(item)
        bar.update(about, before + len(found))
    return found
