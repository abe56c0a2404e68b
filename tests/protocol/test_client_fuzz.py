"""Whatever bytes arrive from a server, a client's connection makes a documented event of them and raises nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.errors import PeerError, ProtocolError
from carrel.protocol.client import (
    ClientProtocol,
    Event,
    FailedRequest,
    Ignored,
    IncomingRequest,
    Response,
    ServerBatch,
    ServerNotification,
)
from carrel.protocol.extensions.tasks import TASKS
from carrel.wire.client_features import ElicitResult
from protocol.test_client import DETAILED, NOTICES, OPERATIONS, QUESTIONS, TASK
from protocol.test_server_fuzz import JSON, REVISIONS, bounded, replaced
from support.client_connection import row_of, speaking
from support.damaged_messages import DAMAGE, damaged
from support.examples import examples
from support.server_connection import ALL, LATEST, PREFIX, pack, request

#: The order in which everything is asked: the answer to the first one has the id 1.
ASKED = list(OPERATIONS)
#: A good answer to each, each good notification and question, and some that are special.
VALID: list[Any] = [
    *(
        {"jsonrpc": "2.0", "id": number, "result": {**OPERATIONS[operation][3], **extra}}
        for number, operation in enumerate(ASKED, start=1)
        for extra in [DETAILED if operation in ("get_task", "cancel_task") else {}]  # as the extension has it
    ),
    *({"jsonrpc": "2.0", "method": row[0], "params": row[2]} for row in NOTICES),
    *(request(method, row[1], "q") for method, row in QUESTIONS.items()),
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no", "data": {"supported": [LATEST]}}},
    {"jsonrpc": "2.0", "error": {"code": -32700, "message": "no"}},
    {
        "jsonrpc": "2.0",
        "id": ASKED.index("call_tool") + 1,
        "result": {
            "resultType": "input_required",
            "inputRequests": {"a": {"method": "roots/list"}},
            "requestState": "s",
        },
    },
    {"jsonrpc": "2.0", "id": ASKED.index("call_tool") + 1, "result": {**DETAILED, "resultType": "task"}},
    {"jsonrpc": "2.0", "method": "notifications/tasks", "params": {**DETAILED, "result": TASK}},
    {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {"_meta": {f"{PREFIX}subscriptionId": 14}},
    },
]
VALID.append([*VALID[:3], *VALID[-3:]])


def asking(revision: str | None) -> ClientProtocol:
    """Return a connection on which everything that its revision has was asked; ids are the same in all."""
    connection = speaking(revision)
    connection.extend(TASKS)
    for number, operation in enumerate(ASKED, start=1):
        if connection.knows(row_of(operation)):
            connection.last_id = number - 1
            connection.request(row_of(operation), OPERATIONS[operation][1], operation)
    return connection


def check_reply(data: bytes) -> None:
    reply = json.loads(data)
    assert reply["jsonrpc"] == "2.0"
    assert set(reply) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    assert type(reply["id"]) in (int, str)


def check_event(connection: ClientProtocol, event: Event, *, outside: bool = True) -> None:
    if isinstance(event, ServerBatch):
        assert outside, "a batch within a batch"
        assert connection.revision is not None
        assert connection.revision.batches
        for part in event.events:
            check_event(connection, part, outside=False)
    elif isinstance(event, Response | FailedRequest):
        assert type(event.id) is int
        assert event.waiting.request.operation == event.waiting.owner
        assert event.id not in connection.waiting, "it is over"
        if isinstance(event, FailedRequest):
            assert isinstance(event.error, PeerError | ProtocolError)
            assert str(event.error)
    elif isinstance(event, IncomingRequest):
        assert connection.revision is None or not connection.revision.stateless
        check_reply(connection.answer(event, ElicitResult(action="cancel")).data)
        check_reply(connection.reject(event, ValueError()).data)
    elif isinstance(event, ServerNotification):
        assert connection.revision is not None
        assert event.subscription is None or type(event.subscription) in (int, str)
    else:
        assert isinstance(event, Ignored)
        assert 0 < len(event.reason) < 1_000
        if event.reply is not None:
            check_reply(event.reply)


def check(revision: str | None, *messages: bytes) -> None:
    connection = asking(revision)
    for message in messages:
        before = len(connection.waiting)
        event = connection.receive(message)
        check_event(connection, event)
        if not isinstance(event, ServerBatch):
            assert before - len(connection.waiting) == isinstance(event, Response | FailedRequest)


@pytest.mark.parametrize("revision", ALL)
def test_what_is_fuzzed_from_is_good(revision: str) -> None:
    connection = asking(revision)
    events = [connection.receive(pack(message)) for message in VALID[: len(ASKED)]]
    asked = [operation for operation in ASKED if asking(revision).knows(row_of(operation))]
    assert [event.waiting.owner for event in events if isinstance(event, Response)] == asked


@bounded
@given(REVISIONS, st.binary(max_size=200))
def test_any_bytes(revision: str | None, data: bytes) -> None:
    check(revision, data)


@bounded
@given(REVISIONS, JSON)
def test_any_json(revision: str | None, value: Any) -> None:
    check(revision, pack(value))


@bounded
@given(REVISIONS, st.integers(1, len(ASKED)), JSON)
def test_any_result(revision: str | None, id: int, result: Any) -> None:
    check(revision, pack({"jsonrpc": "2.0", "id": id, "result": result}))


@bounded
@given(REVISIONS, st.integers(1, len(ASKED)), JSON)
def test_any_error(revision: str | None, id: int, error: Any) -> None:
    check(revision, pack({"jsonrpc": "2.0", "id": id, "error": error}))


@bounded
@given(REVISIONS, st.sampled_from([*QUESTIONS, *(row[0] for row in NOTICES)]), JSON, JSON, st.booleans())
def test_any_parameters(revision: str | None, method: str, id: Any, params: Any, asked: bool) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    check(revision, pack({**message, "id": id} if asked else message))


@bounded
@given(REVISIONS, st.sampled_from(VALID), DAMAGE)
def test_messages_with_damaged_bytes(revision: str | None, message: Any, damage: list[tuple[str, int, bytes]]) -> None:
    check(revision, damaged(pack(message), damage))


@settings(bounded, max_examples=examples(75))
@given(REVISIONS, st.sampled_from(VALID), st.lists(st.integers(0, 6), min_size=1, max_size=6), JSON)
def test_messages_with_an_exchanged_part(revision: str | None, message: Any, path: list[int], new: Any) -> None:
    check(revision, pack(replaced(message, path, new)))


@settings(bounded, max_examples=examples(25))
@given(REVISIONS, st.lists(st.sampled_from(VALID).map(pack) | JSON.map(pack) | st.binary(max_size=30), max_size=12))
def test_any_conversation(revision: str | None, messages: list[bytes]) -> None:
    check(revision, *messages)


@pytest.mark.parametrize("revision", [*ALL, None])
def test_every_beginning_and_every_end_of_a_message(revision: str | None) -> None:
    connection = asking(revision)
    for message in VALID:
        data = pack(message)
        for at in range(len(data)):
            check_event(connection, connection.receive(data[:at]))
            check_event(connection, connection.receive(data[at:]))
            connection = asking(revision) if at == 0 else connection
