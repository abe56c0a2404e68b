"""Names of the processes of workers in ``ps`` and ``top`` (Linux)."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

__all__ = ["name_process"]

#: Fields of ``/proc/self/stat`` after the name of the program: start and end of the arguments in memory.
ARGUMENTS = slice(45, 47)


def name_process(name: str) -> None:
    """Show ``carrel: NAME`` as the command line of this process. A no-op where the system does not allow it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, ValueError):
        Path("/proc/self/comm").write_text(f"carrel-{name.replace(' ', '-')}"[:15])
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[ARGUMENTS])
        shown = f"carrel: {name}".encode()[: end - start - 1]
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(shown.ljust(end - start, b"\0"))
