"""Facts about messages: kinds, counterparts, times, errors, and validity in the negotiated revision."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.studio.timeline.facts import Facts
from carrel.studio.timeline.log import WireLog
from carrel.studio.timeline.reader import TimelineReader

INFO = {"name": "x", "version": "1"}


def read(*messages: tuple[bool, Any], revision: str | None = "2025-06-18") -> list[Facts]:
    log, reader, found = WireLog(), TimelineReader(), []
    connection = log.connect("one")
    connection.revision = revision
    for sent, message in messages:
        connection.add(sent, message if isinstance(message, bytes) else msgspec.json.encode(message))
        reader.read(log.entries[-1])
    for entry in log.entries:
        assert entry.facts is not None
        found.append(entry.facts)
    return found


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def test_a_response_has_the_method_and_the_target_of_its_request() -> None:
    asked, answered = read(
        (True, request(7, "tools/call", name="sum", arguments={})),
        (False, {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}),
    )
    assert (asked.kind, asked.counterpart, asked.invalid) == ("request", 2, ())
    assert (answered.kind, answered.method, answered.target) == ("response", "tools/call", "sum")
    assert (answered.counterpart, answered.invalid) == (1, ())
    assert answered.duration is not None
    assert asked.duration == answered.duration


def test_requests_of_both_sides_may_have_the_same_id() -> None:
    found = read(
        (True, request(1, "tools/list")),
        (False, request(1, "roots/list")),
        (True, {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}),
        (False, {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}),
    )
    assert [each.counterpart for each in found] == [4, 3, 2, 1]
    assert [each.invalid for each in found] == [()] * 4


def test_an_invalid_result_has_the_reason() -> None:
    found = read(
        (True, request(7, "tools/call", name="sum")),
        (False, {"jsonrpc": "2.0", "id": 7, "result": {"content": 3}}),
    )
    assert found[0].invalid == ()
    assert any("CallToolResult/content" in reason for reason in found[1].invalid), found[1].invalid


def test_an_invalid_request_of_the_client_is_flagged_too() -> None:
    (found,) = read((True, request(7, "tools/call", arguments=[])))
    assert found.invalid != ()


def test_the_revision_decides_what_is_valid() -> None:
    result = {"content": [], "structuredContent": [1]}
    conversation = [(True, request(7, "tools/call", name="x")), (False, {"jsonrpc": "2.0", "id": 7, "result": result})]
    assert read(*conversation, revision="2025-06-18")[1].invalid != ()
    assert read(*conversation, revision="2024-11-05")[1].invalid == ()


def test_a_handshake_has_the_revision_that_it_names() -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    result = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": INFO}
    asked, answered = read(
        (True, request(0, "initialize", **params)),
        (False, {"jsonrpc": "2.0", "id": 0, "result": result}),
        revision=None,
    )
    assert (asked.revision, answered.revision) == ("2025-11-25", "2024-11-05")
    assert asked.invalid == answered.invalid == ()


def test_a_server_that_does_not_know_discovery_is_not_invalid_because_of_its_error() -> None:
    answered = read(
        (True, request(0, "server/discover")),
        (False, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "Method not found"}}),
        revision="2026-07-28",
    )[1]
    assert answered.error == "-32601 Method not found"
    assert answered.invalid == ()


def test_errors_and_failed_tools_are_errors() -> None:
    found = read(
        (True, request(1, "tools/call", name="x")),
        (False, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no\u202e"}}),
        (True, request(2, "tools/call", name="x")),
        (False, {"jsonrpc": "2.0", "id": 2, "result": {"content": [], "isError": True}}),
    )
    assert [each.error for each in found] == [None, "-32602 no\\u202e", None, "isError"]


def test_what_is_no_message_is_invalid() -> None:
    found = read((False, b"starting up"), (False, b"3"), (False, b"[3]"), (False, request([], "ping")))
    assert [each.kind for each in found] == ["other", "other", "batch", "request"]
    assert all(each.invalid for each in found)
