"""Reading of regular files only, as a FIFO or a device may block, or never end; and atomic replacement of files."""

# ruff: noqa: PTH101, PTH105, PTH108, PTH116, PTH118

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

__all__ = ["read_regular", "replace_file", "timestamp_of"]


def timestamp_of(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return the modification time, size and inode of a file, which tell whether it changed; None if it is missing."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


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


def replace_file(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace a file atomically: readers see the old or the new contents, never a part.

    By default, only the current user can read the file. ``durable``: the contents are on disk when this returns.

    Raises:
        OSError: the file cannot be written. The old file is unchanged.
    """
    folder, name = os.path.split(os.fspath(path))
    beside = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
