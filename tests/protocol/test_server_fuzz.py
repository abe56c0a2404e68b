"""Whatever bytes arrive, a connection answers with documented events, and what it says is JSON-RPC."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carrel.errors import ResourceNotFound
from carrel.protocol.connection import Ignored
from carrel.protocol.server import Call, ClientBatch, ClientNotification, ErrorResponse, Event, ServerProtocol
from support.damaged_messages import DAMAGE, damaged
from support.examples import examples
from support.server_connection import ALL, CLIENT, LATEST, MARCH, META, connected, initialize, pack, request

bounded = settings(
    max_examples=examples(37), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

VALID = [
    initialize(MARCH),
    request("ping"),
    request("tools/call", {"name": "add", "arguments": {"a": 1, "b": [None, "糖"]}, "_meta": {"progressToken": "p"}}),
    request("resources/read", {"uri": "file:///a%20b?lines=1-2"}, "x", LATEST),
    request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b"]}}, 0, LATEST),
    request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "a:{b}"},
            "argument": {"name": "b", "value": ""},
            "context": {"arguments": {"c": "d"}},
        },
        -1,
    ),
    request("server/discover", {"_meta": {**META, "io.modelcontextprotocol/clientInfo": CLIENT}}),
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"jsonrpc": "2.0", "id": 1, "result": {"x": 1}},
    {"jsonrpc": "2.0", "id": "q", "error": {"code": -1, "message": "m", "data": None}},
    [request("ping", id=1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("tools/list", {}, 2)],
]

KEYS = st.sampled_from(
    [
        *("jsonrpc", "id", "method", "params", "result", "error", "_meta", "uri", "name", "arguments", "cursor", "ref"),
        *("type", "value", "argument", "notifications", "resourceSubscriptions", "progressToken", "requestId"),
        *META,
    ]
)
METHODS = st.sampled_from(
    sorted({message["method"] for message in VALID if isinstance(message, dict) and "method" in message})
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | METHODS
    | KEYS
    | st.sampled_from(["2.0", *ALL, "ref/prompt", 2**64, -(2**63) - 1, 10**40])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6),
    max_leaves=20,
)
REVISIONS = st.sampled_from([*ALL, None])


def check_reply(data: bytes) -> None:
    reply = json.loads(data)
    assert reply["jsonrpc"] == "2.0"
    assert ("result" in reply) != ("error" in reply)
    assert set(reply) <= {"jsonrpc", "id", "result", "error"}
    assert "id" not in reply or reply["id"] is None or type(reply["id"]) in (int, str)
    if "error" in reply:
        error = reply["error"]
        assert set(error) <= {"code", "message", "data"}
        assert type(error["code"]) is int
        assert error["code"] in (-32700, -32600, -32601, -32602, -32603, -32002, -32020, -32021, -32022)
        assert isinstance(error["message"], str)
        assert len(data) < 20_000, "an error does not repeat what came"


def check_event(connection: ServerProtocol, event: Event) -> None:
    if isinstance(event, ErrorResponse):
        check_reply(event.reply)
        assert event.status in (200, 400, 404)
    elif isinstance(event, ClientBatch):
        for part in event.events:
            assert not isinstance(part, ClientBatch)
            check_event(connection, part)
    elif isinstance(event, Call):
        assert type(event.id) in (int, str)
        assert event.request.method in event.peer.revision.requests
        assert isinstance(event.meta, dict)
        assert event.progress_token is None or type(event.progress_token) in (int, str)
        check_reply(connection.reply(event, b"{}"))
        for error in (ValueError("x"), ResourceNotFound("a:b")):
            check_reply(connection.reject(event, error).reply)
        if event.request.operation == "initialize" and connection.peer is None:
            check_reply(connection.reply(event, connection.initialize(event)))
    else:
        assert isinstance(event, ClientNotification | Ignored)


def check(revision: str | None, *messages: bytes) -> None:
    connection = connected(revision)
    for message in messages:
        check_event(connection, connection.receive(message))


@bounded
@given(REVISIONS, st.binary(max_size=200))
def test_any_bytes(revision: str | None, data: bytes) -> None:
    check(revision, data)


@bounded
@given(REVISIONS, JSON)
def test_any_json(revision: str | None, value: Any) -> None:
    check(revision, pack(value))


@bounded
@given(
    REVISIONS,
    st.fixed_dictionaries({"jsonrpc": st.just("2.0")}, optional={"id": JSON, "method": METHODS, "params": JSON}),
)
def test_any_parameters(revision: str | None, message: Any) -> None:
    check(revision, pack(message))


@bounded
@given(REVISIONS, st.sampled_from(VALID), DAMAGE)
def test_messages_with_damaged_bytes(revision: str | None, message: Any, damage: list[tuple[str, int, bytes]]) -> None:
    check(revision, damaged(pack(message), damage))


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """Return a message with one of its parts exchanged; the path is taken modulo what is there."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    step, *rest = path
    if isinstance(value, list):
        at = step % len(value)
        return [*value[:at], replaced(value[at], rest, new), *value[at + 1 :]]
    key = list(value)[step % len(value)]
    return {**value, key: replaced(value[key], rest, new)}


@bounded
@given(REVISIONS, st.sampled_from(VALID), st.lists(st.integers(0, 6), min_size=1, max_size=5), JSON)
def test_messages_with_an_exchanged_part(revision: str | None, message: Any, path: list[int], new: Any) -> None:
    check(revision, pack(replaced(message, path, new)))


@settings(bounded, max_examples=examples(25))
@given(st.lists(st.sampled_from(VALID).map(pack) | JSON.map(pack) | st.binary(max_size=30), max_size=12))
def test_any_conversation(messages: list[bytes]) -> None:
    check(None, *messages)


@pytest.mark.parametrize("revision", [*ALL, None])
@pytest.mark.parametrize("message", VALID)
def test_every_beginning_and_every_end_of_a_message(revision: str | None, message: Any) -> None:
    data = pack(message)
    connection = connected(revision)
    for at in range(len(data)):
        check_event(connection, connection.receive(data[:at]))
        check_event(connection, connection.receive(data[at:]))
