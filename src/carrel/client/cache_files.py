"""Temporary files of the response cache, private to one process and removed when it ends.

The files have random names in a private directory with mode 0700. Size and SHA-256 are verified when a file is read.
Directories of killed processes are removed by the next process that creates one under the same parent: a directory in
use is locked with ``flock``.
"""

# Importing pathlib and tempfile takes milliseconds that most clients never need.
# ruff: noqa: PTH100, PTH103, PTH106, PTH108, PTH111, PTH118, PTH120, PTH123

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from stat import S_ISDIR, S_ISREG

import msgspec

__all__ = ["CacheFiles", "StoredFile"]

PREFIX = "carrel-cache-"
#: Further flags for opening a file: no symbolic links, no inheritance by child processes, no newline translation.
FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Opening must not block if the file was replaced by a pipe.
NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0)
#: Seconds after which a new directory is certainly locked.
NEW = 60.0


class StoredFile(msgspec.Struct, frozen=True, gc=False):
    """Path, size in bytes and SHA-256 digest of a cache file."""

    path: str
    size: int
    digest: bytes


class CacheFiles:
    """Cache files in a temporary directory, created at the first write and removed by ``close`` or at process exit.

    ``directory`` is the parent in which it is created; the system's temporary directory if None. All methods block, and
    are thread-safe.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._parent = None if directory is None else os.path.abspath(os.path.expanduser(directory))
        self._lock = threading.Lock()
        self._path: str | None = None
        self._end: weakref.finalize[..., CacheFiles] | None = None
        self._closed = False

    @property
    def path(self) -> str | None:
        """The temporary directory; None if it was not created yet, or was removed."""
        return self._path

    def write(self, contents: Sequence[bytes]) -> list[StoredFile] | None:
        """Write each of ``contents`` to a file; None, with no files left behind, if not all can be written."""
        written: list[StoredFile] = []
        try:
            for data in contents:
                written.append(self._write(data))  # noqa: PERF401  (removed if a later one fails)
        except OSError:
            self.remove(written)
            return None
        except BaseException:
            self.remove(written)
            raise
        if self._closed:  # concurrently, so the files may have been written after the directory was removed
            self.remove(written)
            with suppress(OSError):
                os.rmdir(os.path.dirname(written[0].path))
            return None
        return written

    def _write(self, data: bytes) -> StoredFile:
        directory = self._directory()
        try:
            descriptor, path = create(directory)
        except FileNotFoundError:  # the directory was removed from outside
            self._forget_directory(directory)
            descriptor, path = create(self._directory())
        try:
            with open(descriptor, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) or 0 :]
        except BaseException:
            with suppress(OSError):
                os.unlink(path)
            raise
        return StoredFile(path, len(data), sha256(data).digest())

    def _directory(self) -> str:
        with self._lock:
            if self._closed:
                raise PermissionError("closed")
            if self._path is None:
                import tempfile

                if self._parent is not None:
                    os.makedirs(self._parent, mode=0o700, exist_ok=True)
                parent = tempfile.gettempdir() if self._parent is None else self._parent
                self._path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)  # 0700
                self._end = weakref.finalize(self, remove_directory, self._path, lock(self._path), os.getpid())
                remove_leftovers(parent)
            return self._path

    def _forget_directory(self, path: str) -> None:
        with self._lock:
            if self._path == path:
                self._path = None
                if self._end is not None:
                    self._end()

    def read(self, stored: StoredFile) -> bytes | None:
        """Read a file; None if it is missing, or its size or digest differs."""
        try:
            descriptor = os.open(stored.path, os.O_RDONLY | NOT_BLOCKING | FLAGS)
            try:
                info = os.fstat(descriptor)
                if not S_ISREG(info.st_mode) or info.st_size != stored.size:
                    return None
                with open(descriptor, "rb", buffering=0, closefd=False) as file:
                    data = file.read(stored.size)
            finally:
                os.close(descriptor)
        except OSError:
            return None
        return data if len(data) == stored.size and sha256(data).digest() == stored.digest else None

    def remove(self, files: Iterable[StoredFile]) -> None:
        """Remove files, ignoring missing ones."""
        for stored in files:
            with suppress(OSError):
                os.unlink(stored.path)

    def close(self) -> None:
        """Remove the directory with all files, and refuse further writes."""
        with self._lock:
            self._closed = True
            self._path = None
            if self._end is not None:
                self._end()


def create(directory: str) -> tuple[int, str]:
    """Create a file with mode 0600, and return its descriptor and path."""
    from secrets import token_hex

    path = os.path.join(directory, token_hex(16))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, 0o600), path


def lock(directory: str) -> int | None:
    """Lock a directory with ``flock`` until the returned descriptor is closed.

    None if another process holds the lock, the directory cannot be opened, or the platform has no ``flock``.
    """
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return None
    try:
        descriptor = os.open(directory, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | FLAGS)
    except OSError:
        return None
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_leftovers(parent: str) -> None:
    """Remove cache directories of processes that have ended: those of this user that are not locked."""
    if not hasattr(os, "getuid"):  # such platforms have no flock either
        return
    from shutil import rmtree
    from time import time

    try:
        with os.scandir(parent) as entries:
            found = [entry for entry in entries if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for entry in found:
        with suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            if not S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or time() - info.st_mtime < NEW:
                continue
            descriptor = lock(entry.path)
            if descriptor is not None:
                rmtree(entry.path, ignore_errors=True)
                os.close(descriptor)


def remove_directory(path: str, descriptor: int | None, process: int) -> None:
    """Close the lock of a directory, and remove it if it was created in this process and not before a fork."""
    if os.getpid() == process:
        from shutil import rmtree

        rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)
