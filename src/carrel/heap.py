"""Heap of the C library (glibc): gives memory back to the operating system after bursts.

After a block from ``mmap`` is freed, glibc takes blocks up to its size, at most 32 MiB, from the heap. There, a small
block that is still in use keeps the free memory below it, so that a burst of large messages would be kept for good.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["LARGE_BLOCK", "Heap", "return_free_pages", "unmap_large_blocks"]

#: Blocks of at least this many bytes are mapped one by one. Mapping costs more than it saves for smaller blocks.
LARGE_BLOCK = 4 * 1024 * 1024
#: Growth of the resident memory, in bytes, after which free pages are given back.
BURST = 64 * 1024 * 1024
#: Seconds between two checks.
INTERVAL = 30.0

M_MMAP_THRESHOLD = -3
_library: Any = None


class Heap:
    """Monitors the resident memory of the process, and returns free pages to the system after a burst of growth."""

    __slots__ = ("_checked", "_kept")

    def __init__(self) -> None:
        self._checked = 0.0
        self._kept: int | None = None

    def check(self, now: float) -> None:
        """Check the memory, at most once per interval. ``now`` is a monotonic time in seconds."""
        if now - self._checked < INTERVAL and self._kept is not None:
            return
        self._checked = now
        size = resident()
        if self._kept is None or size < self._kept:
            self._kept = size
        elif size - self._kept > BURST:
            unmap_large_blocks()
            return_free_pages()
            self._kept = resident()


def resident() -> int:
    """Return the resident memory of this process in bytes; 0 if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # pathlib is not loaded at the start
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def unmap_large_blocks() -> None:
    """Allocate large blocks with mmap from now on, so that freed blocks are returned to the system."""
    _call("mallopt", M_MMAP_THRESHOLD, LARGE_BLOCK)


def return_free_pages() -> None:
    """Return free pages to the system, which takes some milliseconds."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    global _library
    if sys.platform != "linux":
        return
    if _library is None:
        import ctypes  # takes some milliseconds

        _library = ctypes.CDLL(None)
    function = getattr(_library, name, None)  # other C libraries have neither
    if function is not None:
        function(*arguments)
