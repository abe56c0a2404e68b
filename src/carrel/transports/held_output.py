"""Standard output that is held back until it is known whether it belongs to the protocol.

A program may print, or start a process that prints, before its server begins to serve on stdio. On standard output,
the client of the server expects messages alone.
"""

from __future__ import annotations

import os
import stat
import sys

from carrel.transports.pipes import write_all

__all__ = ["hold", "release"]

MAX_READ = 65_536
#: The descriptors of standard output and of the file with the held output, while output is held.
_held: list[tuple[int, int]] = []


def hold() -> None:
    """Hold back standard output, if a client may read it: if standard input and output are pipes or sockets."""
    if _held or sys.__stdout__ is None or not (_is_pipe(0) and _is_pipe(1)):
        return
    sys.__stdout__.flush()
    kept = _temporary_file()
    _held.append((os.dup(1), kept))
    os.dup2(kept, 1)


def release(descriptor: int = 1) -> None:
    """Write the held output to standard output (1) or to standard error (2), and hold back no more."""
    if not _held:
        return
    output, kept = _held.pop()
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    os.dup2(output, 1)
    os.close(output)
    os.lseek(kept, 0, os.SEEK_SET)
    try:
        while data := os.read(kept, MAX_READ):
            write_all(descriptor, data)
    finally:
        os.close(kept)


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _temporary_file() -> int:
    """Return the descriptor of a new file without a name."""
    if hasattr(os, "memfd_create"):  # Linux
        return os.memfd_create("output")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
