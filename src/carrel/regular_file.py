"""Reading of files that others name: only regular files, as a FIFO or a device may block, or never end."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["read_regular"]


def read_regular(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """Return the contents of a regular file, of which at most ``most`` bytes are read.

    Raises:
        OSError: the file cannot be read, or it is not a regular file. ``strerror`` says which.
    """
    # O_NONBLOCK: opening a FIFO without a writer would block, and the file may be replaced at any time.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", os.fspath(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)
