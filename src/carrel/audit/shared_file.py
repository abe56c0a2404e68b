"""Audit file to which several processes write, such as the workers of a server."""

# ruff: noqa: PTH100, PTH116

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from carrel.audit.chain import Chain
from carrel.audit.file import AuditFile, FileOptions
from carrel.errors import ConfigError

__all__ = ["SharedAuditFile", "lock_of"]


class SharedAuditFile(AuditFile):
    """Audit file to which several processes on this machine write complete lines, in one order and one hash chain.

    They take turns by a lock on the file ``PATH.lock``, which also has the end of the chain.

    Raises:
        ConfigError: one of the files cannot be opened.
    """

    def __init__(self, options: FileOptions) -> None:
        self._lock_path = lock_of(options.path)
        try:
            self._lock = self._open_lock()
        except OSError as error:
            raise ConfigError(f"the audit log {options.path} cannot be locked: {error.strerror}") from None
        with self._locked():
            super().__init__(options)

    def write(self, records: Sequence[bytes]) -> None:
        """Write records. After an error, the next call writes them.

        Raises:
            OSError: they cannot be written.
        """
        self._records.extend(records)
        with self._locked():
            self._follow_others()
            while self._records:
                waiting, size, chain = self._records.copy(), self._size, self._chain
                self._chain = Chain(self._options.key, chain.number, chain.digest)
                try:
                    self._write_batch()
                except OSError:  # the lines of another process must not follow a part of a line
                    self._records, self._unwritten, self._chain = waiting, b"", chain
                    with suppress(OSError):
                        os.ftruncate(self._file, size)
                        self._size = size
                    raise
            if self._options.chain:
                os.pwrite(self._lock, b"%020d %b" % (self._chain.number, self._chain.digest.encode()), 0)

    def close(self) -> None:
        """Close the file."""
        super().close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open_lock(self) -> int:
        return os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._wait_for_lock()
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _wait_for_lock(self) -> None:
        """Take the lock on the file that is at its path: it may have been removed, and made anew by another process."""
        while True:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._lock), os.stat(self._lock_path)):
                    return
            old, self._lock = self._lock, self._open_lock()
            os.close(old)

    def _follow_others(self) -> None:
        """Continue after the lines that other processes have written, in the file that is there now."""
        here = os.fstat(self._file)
        with suppress(FileNotFoundError):
            there = os.stat(self._path)
            if (there.st_ino, there.st_dev, there.st_size) == (here.st_ino, here.st_dev, self._size):
                return
        number, _, digest = os.pread(self._lock, 100, 0).decode().partition(" ")
        if digest:  # for a new file, if the files before it have been moved
            self._chain = Chain(self._options.key, int(number), digest)
        self._continue()


def lock_of(path: str) -> str:
    """Return the path of the lock of an audit file."""
    return os.path.abspath(path) + ".lock"
