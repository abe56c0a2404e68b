"""Session files: what is exported is shown again, without secrets, and recordings of carrel record are shown too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carrel.errors import ConfigError
from carrel.redaction import MASK
from carrel.studio.timeline.log import Exchange, WireLog
from carrel.studio.timeline.session_file import open_session, read_session, session_file
from carrel.studio.timeline.timeline import Timeline, WireFilter

EVERYTHING = WireFilter()
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}'
)
INITIALIZED = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"serverInfo":{"name":"s","version":"1"}}}'
)


async def test_a_session_is_the_same_after_it_was_exported() -> None:
    log = WireLog()
    old, new = log.connect("old"), log.connect("new")
    old.add(True, INITIALIZE)
    old.revision = "2025-06-18"
    old.add(False, INITIALIZED)
    new.revision = "2026-07-28"
    for id, text in ((1, b"3"), (1, b"4")):
        old.add(True, b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sum"}}' % id)
        old.add(False, b'{"jsonrpc":"2.0",\n"id":%d,"result":{"content":%s}}' % (id, text))
    new.add(False, b"{broken")
    live = Timeline(log)
    shown = read_session("s.jsonl", b"".join(session_file(log.entries)))
    before, after = [await each.window(EVERYTHING, 0, 100, None) for each in (live, shown)]
    assert (before.recording, after.recording) == (None, "s.jsonl")
    assert after.servers == before.servers
    for one, other in zip(before.rows, after.rows, strict=True):
        assert (one.server, one.direction, one.kind, one.method, one.id, one.target) == (
            *(other.server, other.direction, other.kind, other.method, other.id, other.target),
        )
        assert (one.revision, one.invalid, one.counterpart) == (other.revision, other.invalid, other.counterpart)
    assert after.rows[3].invalid
    assert after.rows[6].kind == "other"
    detail = await shown.detail(6)
    assert detail.before == 4
    assert [line.kind + line.text.strip() for hunk in detail.changes or () for line in hunk.lines] == [
        *(" {", '-"content": 3', '+"content": 4', " }"),
    ]
    assert (await shown.detail(5)).draft is None


def test_secrets_in_headers_are_not_exported() -> None:
    log = WireLog()
    data = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    log.connect("web").add(True, data)
    sent = {"Authorization": MASK, "Accept": "application/json"}
    log.entries[0].exchange = Exchange("POST", 200, sent, {"X-Session": MASK})
    (line,) = session_file(log.entries)
    assert json.loads(line)["http"]["sent"] == sent


async def test_values_of_headers_in_a_file_of_somebody_else_are_hidden() -> None:
    http = {"method": "POST", "status": 200, "sent": {"Authorization": "Bearer abc"}, "received": {}}
    line = {"time": 0, "direction": "in", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}, "http": http}
    detail = await read_session("s.jsonl", json.dumps(line).encode()).detail(1)
    assert detail.http is not None
    assert detail.http.sent == {"Authorization": MASK}


async def test_a_recording_of_carrel_record_has_the_revision_that_was_negotiated(tmp_path: Path) -> None:
    modern = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    lines = [
        ("in", json.loads(INITIALIZE)),
        ("out", json.loads(INITIALIZED)),
        ("in", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ("in", {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": modern}),
        ("out", {"jsonrpc": "2.0", "id": 2, "result": {}}),
    ]
    file = tmp_path / "calls.jsonl"
    file.write_text("".join(json.dumps({"time": 1, "direction": d, "message": m}) + "\n" for d, m in lines))
    window = await open_session(file).window(EVERYTHING, 0, 10, None)
    assert [row.revision for row in window.rows] == [
        *("2025-11-25", "2025-06-18", "2025-06-18", "2026-07-28", "2026-07-28")
    ]
    assert {row.server for row in window.rows} == {"calls"}
    assert window.rows[4].invalid


@pytest.mark.parametrize(("text", "message"), [(b"{", "line 1 is damaged"), (b"", "has no message")])
def test_a_damaged_file_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        open_session(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        open_session(tmp_path / "none.jsonl")
