"""Recordings: lines that are written and read again, and files that are meant as recordings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from carrel.errors import ConfigError
from carrel.recordings import RecordedLine, is_recording, message_in, read_recording, recorded_message

LINE = b'{"time":0.5,"direction":"in","message":{"id":1}}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a":1e2,\r\n "b":"\\n"}\n', {"a": 100.0, "b": "\n"}),
        (b"{broken", "{broken"),
        (b'"\xff"', '"\\xff"'),
        ("\u2028".encode(), "\u2028"),
    ],
)
def test_a_message_is_one_line_and_is_read_as_it_was(data: bytes, message: object) -> None:
    line = msgspec.json.encode(RecordedLine(direction="out", message=recorded_message(data), time=1.5))
    assert b"\n" not in line
    (read,) = read_recording("x", line + b"\n", RecordedLine)
    assert (message_in(read), read.direction, read.time) == (message, "out", 1.5)


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"direction":"up","message":1}', b'{"direction":"in"}', b"\xff"]
)
def test_a_damaged_line_is_named(damaged: bytes) -> None:
    with pytest.raises(ConfigError, match="x is not a recording of carrel record: line 2 "):
        list(read_recording("x", LINE + b"\n" + damaged + b"\n" + LINE, RecordedLine))


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        ("a.jsonl", LINE, True),
        ("a.jsonl", b"garbage\n" + LINE, True),
        ("a.jsonl", LINE[5:], True),
        ("a.jsonl", b'{"event":"login","direction":"in"}', False),
        ("a.jsonl", b"", False),
        ("a.json", LINE, False),
    ],
)
def test_a_file_is_meant_as_a_recording_if_a_line_is_one(tmp_path: Path, name: str, text: bytes, meant: bool) -> None:
    (tmp_path / name).write_bytes(text)
    assert is_recording(tmp_path / name) is meant


def test_what_is_not_there_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    assert not is_recording(tmp_path / "folder.jsonl")
    assert not is_recording(tmp_path / "none.jsonl")
