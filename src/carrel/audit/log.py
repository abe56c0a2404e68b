"""Audit log: a thread writes records in batches to a destination, and waits while it cannot be written."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from carrel.log import Log

__all__ = ["AuditDestination", "AuditLog"]

log = Log("carrel.audit")

#: Seconds between two batches, and so the longest time that a record stays in memory.
INTERVAL = 0.1
#: Seconds between two attempts to write to a full disk.
RETRY = 1.0
#: Seconds for which the end of the program waits for the destination.
PATIENCE = 5.0
#: Entries that wait to be written. Beyond them, the destination is too slow, which counts as full.
MAX_WAITING = 100_000
#: Records of a batch.
BATCH = 1000


class AuditDestination(Protocol):
    """Destination of an audit log, such as a file. Its methods are called in the thread of the log."""

    name: str
    """Name for messages."""

    @property
    def unwritten(self) -> int:
        """The number of records that are not completely written."""

    def write(self, records: Sequence[bytes]) -> None:
        """Write records, JSON objects without line breaks, after the records that the last call could not write.

        Raises:
            OSError: some cannot be written. The next call writes them.
        """

    def close(self) -> None:
        """Close the destination."""


class AuditLog:
    """Audit log. ``write`` takes any value, which ``encode`` turns into a JSON object in the thread of the log.

    While nothing can be written, requests are answered with 503 (``on_full`` "refuse"), or their records are left out
    and counted ("count").
    """

    def __init__(
        self,
        destination: AuditDestination,
        encode: Callable[[Any], bytes],
        on_full: Literal["refuse", "count"] = "refuse",
    ) -> None:
        self._destination = destination
        self._encode = encode
        self._on_full = on_full
        self._waiting: deque[Any] = deque()
        self._missing = 0
        self.is_full = False
        """Whether nothing can be written now."""
        self._work = threading.Event()
        self._ending = False
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
        return self.is_full and self._on_full == "refuse"

    def stop(self) -> None:
        """Write all entries, and close the destination. Waits up to 5 seconds for a full disk."""
        self._ending = True
        self._work.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)
        lost = len(self._waiting) + self._destination.unwritten + self._missing
        if lost:
            log.error("%s: %s lines are lost, as they could not be written", self._destination.name, lost)
        if not self._thread.is_alive():
            self._destination.close()

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
                self._write_waiting()
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
            effect = "requests are refused" if self._on_full == "refuse" else "lines are left out"
            why = error.strerror or error
            log.error("%s cannot be written, and %s until it can: %s", self._destination.name, effect, why)
        if self._on_full == "count":
            self._missing += len(self._waiting)
            self._waiting.clear()

    def _write_waiting(self) -> None:
        """Write the entries that wait.

        Raises:
            OSError: they cannot be written.
        """
        destination = self._destination
        if destination.unwritten:
            destination.write(())
        while self._waiting:
            destination.write([self._record(self._waiting.popleft()) for _ in range(min(len(self._waiting), BATCH))])
        if self.is_full:
            self.is_full = False
            missing, self._missing = self._missing, 0
            log.warning("%s can be written again; %s lines are missing", destination.name, missing)
            if missing:
                destination.write([msgspec.json.encode({"time": time.time(), "missing": missing})])

    def _record(self, entry: Any) -> bytes:
        try:
            return self._encode(entry)
        except Exception:
            log.exception("%s: a line is missing, as it could not be written", self._destination.name)
            return msgspec.json.encode({"time": time.time(), "missing": 1})
