"""Audit files, and standard error.

The lines of a file are in order, with a hash chain. Files rotate. After a full disk, the line that was begun is
completed.
"""

# ruff: noqa: PTH100, PTH105, PTH108, PTH116

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from carrel.audit.chain import Chain, split_line
from carrel.errors import ConfigError

__all__ = ["AuditFile", "AuditStream", "FileOptions", "rotated"]

#: Bytes at the end of a file in which its last line is looked for.
TAIL = 1024 * 1024


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an audit file.

    ``path`` is its path. At ``max_size`` bytes, the file is renamed to ``PATH.1``, and ``PATH.1`` to ``PATH.2``, up to
    ``keep`` files. With ``chain``, each line has a hash; with ``key``, only its holder can make the hashes.
    """

    path: str
    max_size: int = 100 * 1024 * 1024
    keep: int = 10
    chain: bool = False
    key: bytes = b""


class AuditFile:
    """Audit file, a destination of an ``AuditLog``.

    Raises:
        ConfigError: the file cannot be opened.
    """

    def __init__(self, options: FileOptions) -> None:
        self._options = options
        self._path = self.name = os.path.abspath(options.path)
        self._records: deque[bytes] = deque()
        self._unwritten = b""
        """Rest of the lines that did not fit on the disk."""
        self._file = -1
        self._size = 0
        self._chain = Chain(options.key)
        try:
            self._continue()
        except OSError as error:
            raise ConfigError(f"the audit log {options.path} cannot be opened: {error.strerror}") from None

    @property
    def unwritten(self) -> int:
        """The number of records that are not completely written."""
        return len(self._records) + self._unwritten.count(b"\n")

    def write(self, records: Sequence[bytes]) -> None:
        """Write records. After an error, the next call continues where the disk was full.

        Raises:
            OSError: they cannot be written.
        """
        self._records.extend(records)
        self._flush()
        self._follow_file()
        while self._records:
            self._write_batch()

    def _write_batch(self) -> None:
        """Write as many records as the file has room for, and rotate it if it is full."""
        lines: list[bytes] = []
        size = self._size
        while self._records and size < self._options.max_size:
            lines.append(self._line(self._records.popleft()))
            size += len(lines[-1])
        self._unwritten = b"".join(lines)
        self._flush()
        if self._size >= self._options.max_size:
            self._rotate()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _line(self, record: bytes) -> bytes:
        return (self._chain.add(record) if self._options.chain else record) + b"\n"

    def _flush(self) -> None:
        while self._unwritten:
            written = os.write(self._file, self._unwritten)
            self._size += written
            self._unwritten = self._unwritten[written:]

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._path, flags, 0o600)
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor
        self._size = os.fstat(descriptor).st_size

    def _continue(self) -> None:
        """Open the file, and continue its chain, or the chain of the file before it."""
        self._open()
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            return  # a device or a pipe
        for path in (self._path, rotated(self._path, 1)):
            lines = tail(path)
            if path == self._path and lines and not lines[-1].endswith(b"\n"):
                os.write(self._file, b"\n")  # a process was killed while it wrote this line
                self._size += 1
            for line in reversed(lines):
                found = split_line(line.rstrip(b"\r\n"))
                if found is not None:
                    self._chain = Chain(self._options.key, found[1], found[2])
                    return

    def _follow_file(self) -> None:
        """Open the file again if it was renamed or removed, for example by logrotate."""
        try:
            there, here = os.stat(self._path), os.fstat(self._file)
        except FileNotFoundError:
            self._open()
            return
        if (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev):
            self._open()

    def _rotate(self) -> None:
        keep = self._options.keep
        with suppress(FileNotFoundError):
            os.unlink(rotated(self._path, keep))
        for number in range(keep - 1, -1, -1):
            source = rotated(self._path, number) if number else self._path
            with suppress(FileNotFoundError):
                os.replace(source, rotated(self._path, number + 1))
        self._open()


class AuditStream:
    """Standard error, a destination of an ``AuditLog``."""

    name = "standard error"

    def __init__(self) -> None:
        self._unwritten = b""

    @property
    def unwritten(self) -> int:
        """The number of records that are not completely written."""
        return self._unwritten.count(b"\n")

    def write(self, records: Sequence[bytes]) -> None:
        """Write records, a line each.

        Raises:
            OSError: standard error is closed.
        """
        self._unwritten += b"".join(record + b"\n" for record in records)
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(2, self._unwritten) :]

    def close(self) -> None:
        """Leave standard error open."""


def rotated(path: str, number: int) -> str:
    """Return the path of an older file of a log."""
    return f"{path}.{number}"


def tail(path: str) -> list[bytes]:
    """Return the last lines of a file, with their line breaks; no lines if it does not exist."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read(TAIL).splitlines(keepends=True)
    except FileNotFoundError:
        return []
