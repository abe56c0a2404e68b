"""Pipes: their size, as large messages take few steps if a pipe holds more than 64 KiB, and blocking writes."""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["LARGE", "enlarge", "write_all"]

#: Messages of at least this many bytes do not fit into a pipe of the usual size.
LARGE = 64 * 1024

#: Bytes that an enlarged pipe holds: what Linux grants to every user (/proc/sys/fs/pipe-max-size).
SIZE = 1024 * 1024


def enlarge(transport: Any) -> None:
    """Let the pipe of an asyncio transport hold 1 MiB; does nothing if it is no pipe, or the system refuses.

    Linux counts the size of all pipes of a user, so this is for pipes that carry large messages.
    """
    if sys.platform != "linux":
        return
    import fcntl

    pipe = transport.get_extra_info("pipe")
    try:
        if pipe is not None and fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) < SIZE:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, SIZE)
    except OSError:  # no pipe (EBADF), or the user has too many large ones (EPERM)
        pass


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data to a descriptor that blocks.

    Raises:
        OSError: the reader is gone, or the descriptor is closed.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
