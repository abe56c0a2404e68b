"""Progress bar on standard error for slow operations, only on a terminal: with rich if installed, else plain."""

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

from carrel.columns import truncate
from carrel.printable import printable

if TYPE_CHECKING:
    from carrel.client.results import PagedList

__all__ = ["Bar", "ProgressState", "counted", "is_wanted"]

#: Seconds before the bar appears, so that fast operations show no bar; and seconds between two drawings.
DELAY = 0.4
INTERVAL = 0.1
#: Characters of the plain bar.
PLAIN = 20
LONGEST = 200

T = TypeVar("T")


class ProgressState(NamedTuple):
    """State to show: a description, the progress and the total. ``total`` is None if it is unknown."""

    about: str
    done: float | None = None
    total: float | None = None

    @property
    def share(self) -> float | None:
        """The completed fraction, from 0 to 1."""
        if self.done is None or not self.total or self.total < 0:
            return None
        return min(max(self.done / self.total, 0.0), 1.0)

    def text(self) -> str:
        """Return the state as text, without control characters sent by a server."""
        about = printable(" ".join(self.about.split()), LONGEST)
        if self.done is None or self.share is not None:
            return about
        return f"{about} {self.done:,.10g}"


class Drawer(Protocol):
    """Draws, redraws and removes a state on the terminal."""

    def draw(self, state: ProgressState) -> None:
        """Show a state instead of the one before."""

    def end(self) -> None:
        """Remove the bar."""


def is_wanted(*, quiet: bool = False, as_json: bool = False) -> bool:
    """Return whether to show a bar: not if output goes to a pipe or is JSON, and not in a dumb terminal."""
    if quiet or as_json or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    try:
        return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


class Bar:
    """Progress bar of a command. Enter it within an event loop, and call ``stop`` before printing output."""

    def __init__(self, *, wanted: bool, state: Callable[[], ProgressState] | None = None) -> None:
        self.wanted = wanted
        self._state = ProgressState("")
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
        """Update the description and the progress."""
        self._state = ProgressState(about, done, total)

    def stop(self) -> None:
        """Remove the bar permanently."""
        if self._task is not None:
            self._task.cancel()
        self._remove()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar while the user is prompted."""
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
    """Return the width of a bar. It leaves room for the ``^C`` that the terminal prints, so that the bar stays on one
    line.
    """
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

    def draw(self, state: ProgressState) -> None:
        """Show a state instead of the one before."""
        share = state.share
        options: dict[str, Any] = {"total": None} if share is None else {"total": 1.0, "completed": share}
        self._progress.update(self._task, description=state.text(), share=percentage(share), **options)

    def end(self) -> None:
        """Remove the bar."""
        self._progress.stop()


class PlainDrawer:
    """Bar of characters on one line. Lines written to standard error meanwhile appear above it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._out = sys.stderr
        sys.stderr = Above(self._out)

    def draw(self, state: ProgressState) -> None:
        """Show a state instead of the one before."""
        share = state.share
        bar = "" if share is None else f"[{'#' * round(share * PLAIN):-<{PLAIN}}] {percentage(share)} "
        line = f"{bar}{state.text()}"
        seconds = f" {time.monotonic() - self._began:.0f} s"
        line = truncate(line, room() - len(seconds))
        encoding = self._out.encoding or "ascii"
        self._out.write(f"\r\x1b[K{line}{seconds}".encode(encoding, "replace").decode(encoding))
        self._out.flush()

    def end(self) -> None:
        """Remove the bar."""
        sys.stderr = self._out
        self._out.write("\r\x1b[K")
        self._out.flush()


class Above:
    """Standard error while a plain bar is shown. Text replaces the bar, which is redrawn below."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write text instead of the bar."""
        return self._out.write(f"\r\x1b[K{text}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def percentage(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


async def counted(listing: PagedList[T], bar: Bar, about: str, *, before: int = 0) -> list[T]:
    """Collect a complete list, and show the number of entries received."""
    found: list[T] = []
    bar.update(about, before)
    async for item in listing:
        found.append(item)
        bar.update(about, before + len(found))
    return found
