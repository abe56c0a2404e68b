"""Recordings: files with the messages of a session, one a line, as JSON lines.

A line is ``{"time": seconds, "direction": "in" or "out", "message": …}``, as seen by the server. ``carrel record`` and
Carrel Studio write them; ``carrel replay`` and Carrel Studio read them. A session with several connections has the name
of the server and the number of the connection in each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from carrel.errors import ConfigError

__all__ = ["RecordedLine", "is_recording", "message_in", "read_recording", "recorded_message"]

SUFFIX = ".jsonl"
#: Bytes at the start of a file that tell whether it is a recording, and what only lines of a recording have.
HEAD, MARK = 16 * 1024, re.compile(rb'"direction"\s*:\s*"(?:in|out)"')


class RecordedLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Line of a recording. ``time`` is in seconds since its start; ``message`` is JSON.

    ``revision`` is the revision in which the client spoke, if it is known.
    """

    direction: Literal["in", "out"]
    message: msgspec.Raw
    time: float = 0.0
    server: str | None = None
    connection: int | None = None
    revision: str | None = None


T = TypeVar("T", bound=RecordedLine)


def recorded_message(data: bytes) -> msgspec.Raw:
    """Return a message as a member of a line. A message that is not JSON becomes a string."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(data.decode("utf-8", "backslashreplace")))
    # Between the values of a message, a line break is like a space. Inside a string, JSON does not allow it.
    return msgspec.Raw(data.strip().replace(b"\r", b" ").replace(b"\n", b" "))


def message_in(line: RecordedLine) -> Any:
    """Return the message of a line, decoded."""
    return msgspec.json.decode(line.message)


def read_recording(name: str, data: bytes, type: type[T]) -> Iterator[T]:
    """Yield the lines of a recording. ``name`` is for errors.

    Raises:
        ConfigError: a line is not a line of a recording.
    """
    for number, line in enumerate(data.splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ConfigError(
                f"{name} is not a recording of carrel record: line {number} is damaged, or is something else"
            ) from None


def is_recording(file: Path) -> bool:
    """Return whether a file is meant as a recording: its name ends with .jsonl, and one of its first lines is one.

    A recording whose first line is damaged is still one, so that it is reported and not shared as a text.
    """
    if file.suffix != SUFFIX or not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
            return MARK.search(head) is not None and b'"message"' in head
    except OSError:  # the reader of the file reports why
        return False
