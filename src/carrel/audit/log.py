"""Audit log file: a thread writes the lines in batches, rotates the file, and waits if the disk is full."""

# ruff: noqa: PTH100, PTH105, PTH108, PTH116

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec

from carrel.audit.chain import Chain, split_line
from carrel.errors import ConfigError
from carrel.log import Log

__all__ = ["AuditLog", "AuditOptions", "rotated"]

log = Log("carrel.audit")

#: Seconds between two batches, and so the longest time that a line stays in memory.
INTERVAL = 0.1
#: Seconds between two attempts to write to a full disk.
RETRY = 1.0
#: Seconds for which the end of the program waits for the disk.
PATIENCE = 5.0
#: Entries that wait to be written. Beyond them, the disk is too slow, which counts as full.
MAX_WAITING = 100_000
#: Bytes at the end of a file in which its last line is looked for.
TAIL = 1024 * 1024


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an audit log.

    ``file`` is its path. At ``max_size`` bytes, the file is renamed to ``FILE.1``, and ``FILE.1`` to ``FILE.2``, up to
    ``keep`` files. While nothing can be written, requests are answered with 503 (``on_full`` "refuse"), or their lines
    are left out and counted ("count"). With ``chain``, each line has a hash; with ``key``, only its holder can make
    the hashes.
    """

    file: str
    max_size: int = 100 * 1024 * 1024
    keep: int = 10
    on_full: Literal["refuse", "count"] = "refuse"
    chain: bool = False
    key: bytes = b""


class AuditLog:
    """Audit log file. ``write`` takes any value, which ``encode`` turns into a JSON object in the thread of the log.

    Raises:
        ConfigError: the file cannot be opened.
    """

    def __init__(self, options: AuditOptions, encode: Callable[[Any], bytes]) -> None:
        self._options = options
        self._encode = encode
        self._path = os.path.abspath(options.file)
        self._waiting: deque[Any] = deque()
        self._unwritten = b""
        """Rest of a batch that did not fit on the disk."""
        self._missing = 0
        self.is_full = False
        """Whether nothing can be written now."""
        self._work = threading.Event()
        self._ending = False
        self._file = -1
        self._size = 0
        self._chain = Chain(options.key)
        try:
            self._continue()
        except OSError as error:
            raise ConfigError(f"the audit log {options.file} cannot be opened: {error.strerror}") from None
        self._thread = threading.Thread(target=self._run, name="carrel-audit", daemon=True)

    # On the event loop

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, entry: Any) -> None:
        """Add an entry, unless too many are waiting. Thread-safe; takes less than a microsecond."""
        if len(self._waiting) >= MAX_WAITING:
            self.is_full = True
            self._missing += 1
            return
        self._waiting.append(entry)
        if not self._work.is_set():
            self._work.set()

    @property
    def refuses(self) -> bool:
        """Whether requests must be refused, as nothing can be written."""
        return self.is_full and self._options.on_full == "refuse"

    def stop(self) -> None:
        """Write all entries, and close the file. Waits up to 5 seconds for a full disk."""
        self._ending = True
        self._work.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)
        if self._waiting or self._unwritten or self._missing:
            lost = len(self._waiting) + self._unwritten.count(b"\n") + self._missing
            log.error("%s: %s lines are lost, as they could not be written", self._path, lost)
        if self._file >= 0 and not self._thread.is_alive():
            os.close(self._file)
            self._file = -1

    # In the thread

    def _run(self) -> None:
        deadline = 0.0
        while True:
            self._work.wait()
            self._work.clear()
            ending = self._ending
            if ending and not deadline:
                deadline = time.monotonic() + PATIENCE
            try:
                self._write_batch()
            except OSError as error:
                self._complain(error)
                if ending and time.monotonic() > deadline:
                    return
                time.sleep(min(RETRY, INTERVAL) if ending else RETRY)
                self._work.set()
                continue
            if ending and not self._waiting:
                return
            if not ending:
                time.sleep(INTERVAL)

    def _complain(self, error: OSError) -> None:
        if not self.is_full:
            self.is_full = True
            effect = "requests are refused" if self._options.on_full == "refuse" else "lines are left out"
            log.error("%s cannot be written, and %s until it can: %s", self._path, effect, error.strerror)
        if self._options.on_full == "count":
            self._missing += len(self._waiting)
            self._waiting.clear()

    def _write_batch(self) -> None:
        """Write the entries that wait. After an error, the next call goes on where the disk was full.

        Raises:
            OSError: they cannot be written.
        """
        self._flush()
        self._follow_file()
        while self._waiting:
            lines: list[bytes] = []
            size = self._size
            while self._waiting and size < self._options.max_size and len(lines) < 1000:
                lines.append(self._line(self._record(self._waiting.popleft())))
                size += len(lines[-1])
            self._unwritten = b"".join(lines)
            self._flush()
            if self._size >= self._options.max_size:
                self._rotate()
        if self.is_full:
            self.is_full = False
            missing, self._missing = self._missing, 0
            log.warning("%s can be written again; %s lines are missing", self._path, missing)
            if missing:
                self._unwritten = self._line(msgspec.json.encode({"time": time.time(), "missing": missing}))
                self._flush()

    def _record(self, entry: Any) -> bytes:
        try:
            return self._encode(entry)
        except Exception:
            log.exception("%s: a line is missing, as it could not be written", self._path)
            return msgspec.json.encode({"time": time.time(), "missing": 1})

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
