"""Session files: the timeline as a recording of ``carrel record``, and a recording as a timeline without servers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.protocol.client import VERSION
from carrel.protocol.methods import INITIALIZE
from carrel.recordings import RecordedLine, message_in, read_recording, recorded_message
from carrel.studio.timeline.log import Entry, Exchange, WireConnection, WireLog, without_secret_values
from carrel.studio.timeline.reader import known
from carrel.studio.timeline.timeline import Timeline

__all__ = ["open_session", "read_session", "session_file"]

MAX_NAME = 100


class SessionLine(RecordedLine, omit_defaults=True, kw_only=True):
    """Line of a session file. ``http`` has no values of headers that may be secrets."""

    http: Exchange | None = None


def session_file(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the lines of a session file for messages."""
    started: float | None = None
    for entry in entries:
        started = entry.time if started is None else started
        line = SessionLine(
            time=round(entry.time - started, 6),
            direction="in" if entry.sent else "out",
            message=recorded_message(entry.data),
            server=entry.connection.server,
            connection=entry.connection.number,
            revision=entry.revision,
            http=entry.exchange,
        )
        yield msgspec.json.encode(line) + b"\n"


def open_session(file: Path) -> Timeline:
    """Return the timeline of a session file, or of another recording.

    Raises:
        ConfigError: the file cannot be read, is not a recording, or has no message.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    return read_session(file.name, data)


def read_session(name: str, data: bytes) -> Timeline:
    """Return the timeline of a recording with a name. Times are seconds since its start.

    Raises:
        ConfigError: the text is not a recording, or has no message.
    """
    log = WireLog(kept=sys.maxsize)
    connections: dict[tuple[str | None, int | None], SessionReader] = {}
    for line in read_recording(name, data, SessionLine):
        key = line.server, line.connection
        if key not in connections:
            server = name.rpartition(".")[0] or name if line.server is None else line.server
            connections[key] = SessionReader(log.connect(printable(server, MAX_NAME)))
        log.add(connections[key].read(line))
    if not log.entries:
        raise ConfigError(f"{name} has no message")
    return Timeline(log, recording=printable(name, MAX_NAME))


class SessionReader:
    """Reader of the lines of one connection. Finds the revision of each message."""

    def __init__(self, connection: WireConnection) -> None:
        self._connection = connection
        self._opening: set[str] = set()

    def read(self, line: SessionLine) -> Entry:
        """Return the message of a line."""
        message, sent = message_in(line), line.direction == "in"
        self._connection.revision = known(line.revision) or self._revision(message, sent)
        data = message.encode() if isinstance(message, str) else bytes(line.message)
        entry = Entry(self._connection, sent, data, line.time)
        if line.http is not None:
            sent_headers, received = map(without_secret_values, (line.http.sent, line.http.received))
            entry.exchange = Exchange(printable(line.http.method, 20), line.http.status, sent_headers, received)
        return entry

    def _revision(self, message: Any, sent: bool) -> str | None:
        """Return the revision that a message names, or else the revision of the message before it."""
        before = self._connection.revision
        if not isinstance(message, dict):
            return before
        if sent and message.get("method") == INITIALIZE.method:
            self._opening.add(repr(message.get("id")))
            return None
        place, name = ("params", VERSION) if sent else ("result", "protocolVersion")
        value = message.get(place)
        if sent and isinstance(value, dict):
            value = value.get("_meta")
        elif repr(message.get("id")) not in self._opening:
            return before
        return known(value.get(name)) or before if isinstance(value, dict) else before
