"""Binary search in a log by time: the offset of the first entry at or after an instant.

Reads about twenty blocks of a file of any size. Times have to rise, but for a margin that the caller subtracts. Blocks
without a time (a long traceback, a hole of zero bytes that copytruncate leaves) are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from typing import TypeAlias

from carrel.sources.logs.budget import ReadBudget

__all__ = ["NEAR", "PROBE", "ReadAt", "extents", "next_data", "seek"]

PROBE = 16_384  # bytes read to find a time
NEAR = 65_536  # bytes: a range that is read rather than divided
MAX_EXTENTS = 1000  # parts between holes

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads up to so many bytes (the second argument) from an offset (the first)."""

TimeOf: TypeAlias = Callable[[bytes], float | None]
"""Returns the time of the entry that a line begins; None if it has none."""

Skip: TypeAlias = Callable[[int], int]
"""Returns the offset of the next data at or after an offset, skipping a hole."""


def seek(read_at: ReadAt, size: int, instant: float, time_of: TimeOf, skip: Skip, budget: ReadBudget) -> int:
    """Return the offset of the first entry at or after ``instant``, or ``size`` if no entry is that late."""
    low, high, found_at = 0, size, size
    while high - low > NEAR and not budget.is_over():
        middle = (low + high) // 2
        found = first_timed(read_at, middle, high, time_of, skip)
        if found is None:
            high = middle
        elif found[1] >= instant:
            high, found_at = middle, found[0]
        else:
            low = found[0]
    found = first_timed(read_at, low, high, time_of, skip, least=instant, whole=True)
    return found_at if found is None else found[0]


def first_timed(
    read_at: ReadAt,
    begin: int,
    end: int,
    time_of: TimeOf,
    skip: Skip,
    *,
    least: float = -inf,
    whole: bool = False,
) -> tuple[int, float] | None:
    """Return the offset and time of the first line with a time of at least ``least`` that begins in a range.

    The line at ``begin`` counts if it is ``whole``. Lines that begin with zero bytes, after a hole, count as well.
    """
    offset, remaining = begin, b""  # the rest is a line that has not ended yet
    while offset - len(remaining) < end:
        block = read_at(offset, PROBE)
        if block and block.count(0) == len(block):
            offset = max(skip(offset), offset + len(block))
            remaining, whole = b"", True
            continue
        start = offset - len(remaining)
        lines = (remaining + block).split(b"\n")
        offset += len(block)
        remaining = lines.pop() if block else b""
        for line in lines:
            if start >= end:
                return None
            if (whole or line.startswith(b"\0")) and (time := time_of(line)) is not None and time >= least:
                return start, time
            start += len(line) + 1
            whole = True
        if not block:
            return None
        if len(remaining) >= PROBE:  # an endless line: only its end is of interest
            remaining, whole = b"", False
    return None


def next_data(descriptor: int, offset: int) -> int:
    """Return the offset of the next data at or after an offset, or the offset itself if this is not supported."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except AttributeError:
        return offset
    except OSError:  # ENXIO: there is a hole up to the end
        return os.fstat(descriptor).st_size


def extents(descriptor: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a range of a file that are not holes. If there are very many, the last parts are joined."""
    found: list[tuple[int, int]] = []
    if not hasattr(os, "SEEK_HOLE"):
        return [(begin, end)] if begin < end else []
    while begin < end and len(found) < MAX_EXTENTS:
        start = next_data(descriptor, begin)
        if start >= end:
            break
        try:
            stop = min(os.lseek(descriptor, start, os.SEEK_HOLE), end)
        except OSError:  # it has shrunk
            break
        found.append((start, stop))
        begin = stop
    else:
        if begin < end:
            found.append((begin, end))
    return found
