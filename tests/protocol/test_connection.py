"""The core of a connection, which is the same for both directions; and two connections that speak to each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carrel.errors import InvalidMessage, PeerError, ProtocolError
from carrel.protocol import client, server
from carrel.protocol.connection import (
    MAX_SLOT,
    TRANSITIONS,
    Connection,
    ConnectionState,
    FailedRequest,
    Ignored,
    Response,
    Step,
    read_batch,
)
from carrel.protocol.encoding import encode, encode_event
from carrel.protocol.methods import CALL_TOOL, CANCELLED, LIST_ROOTS, LIST_TOOLS, PING, READ_RESOURCE
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation, PageParams, Params, Result
from carrel.wire.client_features import ListRootsParams, ListRootsResult
from carrel.wire.resources import ReadResourceParams
from carrel.wire.tools import CallToolParams
from carrel.wire.utilities import ProgressParams
from support.examples import examples
from support.server_connection import DESCRIPTION, HANDSHAKES, MARCH, connected, error_of
from support.server_connection import initialize as initializing

# States

#: The table, written a second time: state, step, and the state after it; all other steps are refused.
STEPS = {
    (ConnectionState.NEW, Step.PROPOSE): ConnectionState.NEGOTIATING,
    (ConnectionState.NEW, Step.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.NEGOTIATING, Step.PROPOSE): ConnectionState.NEGOTIATING,
    (ConnectionState.NEGOTIATING, Step.AGREE): ConnectionState.OPEN,
    (ConnectionState.NEGOTIATING, Step.REJECT): ConnectionState.NEW,
    (ConnectionState.NEGOTIATING, Step.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.OPEN, Step.REJECT): ConnectionState.NEW,
    (ConnectionState.OPEN, Step.CLOSE): ConnectionState.CLOSED,
    (ConnectionState.CLOSED, Step.CLOSE): ConnectionState.CLOSED,
}


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("state", ConnectionState)
def test_every_step_in_every_state_leads_where_the_table_says_or_is_refused(state: ConnectionState, step: Step) -> None:
    connection: Connection[Any] = Connection()
    connection.state = state
    after = STEPS.get((state, step))
    if after is None:
        with pytest.raises(ProtocolError, match=f"the session is {state.value}"):
            connection.step(step)
    else:
        connection.step(step)
    assert connection.state is (after or state)


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    reached = {ConnectionState.NEW}
    for _ in ConnectionState:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}
    assert reached == set(ConnectionState)


def test_a_session_is_negotiated_by_both_sides_in_the_same_states() -> None:
    here = client.ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    there = server.ServerProtocol(DESCRIPTION)
    assert (here.state, there.state) == (ConnectionState.NEW, ConnectionState.NEW)
    call = there.receive(here.initialize(REVISIONS[MARCH], "me").data)
    assert isinstance(call, server.Call)
    assert (here.state, there.state) == (ConnectionState.NEGOTIATING, ConnectionState.NEW)
    reply = there.reply(call, there.initialize(call))
    assert isinstance(here.receive(reply), Response)
    here.speak(REVISIONS[MARCH])
    here.settle()
    assert (here.state, there.state) == (ConnectionState.OPEN, ConnectionState.OPEN)
    assert (here.close(), there.close()) == ([], [])
    assert (here.state, there.state) == (ConnectionState.CLOSED, ConnectionState.CLOSED)


def test_a_refused_session_can_be_asked_for_again() -> None:
    here = client.ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    there = server.ServerProtocol(DESCRIPTION)
    for _ in range(2):
        call = there.receive(here.initialize(REVISIONS[MARCH], "me").data)
        assert isinstance(call, server.Call)
        there.initialize(call)
        there.reject_session()
        assert isinstance(here.receive(there.reject(call, ValueError()).reply), FailedRequest)
        assert (here.state, there.state, there.peer) == (ConnectionState.NEW, ConnectionState.NEW, None)


def test_a_session_is_opened_once() -> None:
    connection = connected(MARCH)
    call = connection.receive(encode(initializing(MARCH, 7)))
    assert isinstance(call, server.Call)
    with pytest.raises(InvalidMessage):
        connection.initialize(call)
    assert connection.state is ConnectionState.OPEN


def test_a_connection_has_no_place_for_the_things_of_other_layers() -> None:
    core = {"__weakref__", "in_flight", "last_id", "state", "waiting"}
    assert set(Connection.__slots__) == core
    assert set(server.ServerProtocol.__slots__) == {"description", "peer", "version_header"}
    assert set(client.ClientProtocol.__slots__) == {
        *("_extended", "_members", "_meta", "_notices", "_rows", "capabilities", "info", "keeps", "log_level"),
        "revision",
    }
    for kind in (Connection, server.ServerProtocol, client.ClientProtocol):
        assert not hasattr(kind.__new__(kind), "__dict__")


# Ids


@pytest.mark.parametrize("slot", [0, 1, 77, MAX_SLOT])
def test_ids_are_integers_with_the_slot_in_front_and_below_two_to_the_53(slot: int) -> None:
    connection: Connection[Any] = Connection()
    connection.use_slot(slot)
    ids = [json.loads(connection.ask(PING, {}, number))["id"] for number in range(3)]
    assert ids == [slot << 32 | number for number in (1, 2, 3)]
    assert list(connection.waiting) == ids
    assert all(type(id) is int and id < 2**53 for id in ids)


@pytest.mark.parametrize("slot", [-1, MAX_SLOT + 1])
def test_a_slot_whose_ids_no_parser_could_read_is_refused(slot: int) -> None:
    with pytest.raises(ValueError, match=str(MAX_SLOT)):
        Connection().use_slot(slot)


# Requests


class Desk:
    """A ``Requester`` that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def resolve(self, result: Any) -> None:
        self.got.append(result)

    def fail(self, error: Exception) -> None:
        self.got.append(error)


def test_a_response_is_delivered_to_the_sender_of_its_request() -> None:
    connection, first, second = connected(MARCH), Desk(), Desk()
    for desk in (first, second):
        connection.ask(LIST_ROOTS, {}, desk)
    for message in ({"id": 2, "result": {"roots": []}}, {"id": 1, "error": {"code": 5, "message": "no"}}):
        event = connection.receive(encode({"jsonrpc": "2.0", **message}))
        assert isinstance(event, Response | FailedRequest)
        event.deliver()
    assert second.got == [{"roots": []}]
    (error,) = first.got
    assert isinstance(error, PeerError)
    assert (error.code, error.message) == (5, "no")


@pytest.mark.parametrize("error", ["5", "null", "{}", '{"code":"x","message":"y"}', '{"code":1}', "[]"])
def test_an_error_that_cannot_be_read_is_an_error_all_the_same(error: str) -> None:
    connection = connected(MARCH)
    connection.ask(LIST_ROOTS, {}, "me")
    event = connection.receive(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error.encode())
    assert isinstance(event, FailedRequest)
    assert isinstance(event.error, InvalidMessage)


def test_a_cancelled_request_is_forgotten_and_its_cancellation_sent_once() -> None:
    connection = connected(MARCH)
    connection.ask(LIST_ROOTS, {}, "me")
    message = connection.cancel(1, "bored")
    assert message is not None
    assert json.loads(message) == {
        "jsonrpc": "2.0",
        "method": CANCELLED.method,
        "params": {"requestId": 1, "reason": "bored"},
    }
    assert connection.cancel(1, "bored") is None
    assert isinstance(connection.receive(b'{"jsonrpc":"2.0","id":1,"result":{}}'), Ignored)


def test_a_closed_connection_hands_back_what_will_not_be_answered() -> None:
    connection = connected(MARCH)
    connection.ask(LIST_ROOTS, {}, "first")
    connection.ask(PING, {}, "second")
    connection.begin("theirs")
    assert [(id, each.owner) for id, each in connection.close()] == [(1, "first"), (2, "second")]
    assert (connection.waiting, connection.in_flight, connection.close()) == ({}, {}, [])


def test_a_batch_is_split_and_one_message_too_many_is_kept() -> None:
    assert [bytes(raw) for raw in read_batch(b'[1, {"a":[2]},"x"]')] == [b"1", b'{"a":[2]}', b'"x"']
    assert len(read_batch(b"[" + b"1," * 999 + b"1]")) == 501


# Two connections


class Conversation(RuleBasedStateMachine):
    """A client and a server that ask each other, answer in any order, cancel, and answer too late."""

    @initialize(revision=st.sampled_from(HANDSHAKES), slot=st.sampled_from([0, 5, MAX_SLOT]))
    def open(self, revision: str, slot: int) -> None:
        self.revision = REVISIONS[revision]
        self.client: client.ClientProtocol[Any] = client.ClientProtocol(Implementation("c", "1"), ClientCapabilities())
        self.server = server.ServerProtocol(DESCRIPTION)
        self.server.use_slot(slot)
        call = self.server.receive(self.client.initialize(self.revision, "open").data)
        assert isinstance(call, server.Call)
        assert isinstance(self.client.receive(self.server.reply(call, self.server.initialize(call))), Response)
        self.client.speak(self.revision)
        self.client.settle()
        self.calls: dict[Any, server.Call] = {}
        self.questions: dict[Any, client.IncomingRequest] = {}
        self.late: list[tuple[bool, bytes]] = []
        self.used: set[tuple[str, Any]] = set()
        self.number = 0

    def owner(self) -> str:
        self.number += 1
        return f"owner {self.number}"

    # The client asks

    @rule(which=st.integers(0, 2), progress=st.booleans())
    def call(self, which: int, progress: bool) -> None:
        row, params = (
            (LIST_TOOLS, PageParams()),
            (READ_RESOURCE, ReadResourceParams(uri="a:b")),
            (CALL_TOOL, CallToolParams(name="t")),
        )[which]
        outgoing = self.client.request(row, params, self.owner(), progress=progress)
        call = self.server.receive(outgoing.data)
        assert isinstance(call, server.Call)
        assert (call.id, call.request) == (outgoing.id, row)
        assert call.progress_token == (call.id if progress else None)
        assert ("client", call.id) not in self.used
        self.used.add(("client", call.id))
        self.server.begin(call.id)
        self.calls[call.id] = call
        assert error_of(self.server, outgoing.data)["code"] == -32600, "its id is in use"
        if progress:
            params = ProgressParams(progress_token=call.id, progress=0.5)
            notice = self.client.receive(encode_event(self.revision, "progress", params))
            assert isinstance(notice, client.ServerNotification)
            assert notice.params.progress_token in self.client.waiting

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), fails=st.booleans(), twice=st.booleans())
    def reply(self, data: Any, fails: bool, twice: bool) -> None:
        call = self.calls.pop(data.draw(st.sampled_from(sorted(self.calls))))
        owner = self.client.waiting[call.id].owner
        reply = (
            self.server.reject(call, ValueError()).reply if fails else self.server.reply(call, RESULTS[call.request])
        )
        self.server.end(call.id)
        event = self.client.receive(reply)
        assert isinstance(event, FailedRequest if fails else Response)
        assert (event.id, event.waiting.owner) == (call.id, owner)
        if twice:
            self.late.append((True, reply))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def give_up(self, data: Any) -> None:
        call = self.calls.pop(data.draw(st.sampled_from(sorted(self.calls))))
        outgoing = self.client.give_up(call.id, "bored")
        assert outgoing is not None
        event = self.server.receive(outgoing.data)
        assert isinstance(event, server.ClientNotification)
        assert (event.operation, event.params.request_id) == ("cancelled", call.id)
        self.server.end(call.id)
        self.late.append((True, self.server.reply(call, RESULTS[call.request])))

    # The server asks

    @rule(ping=st.booleans())
    def ask(self, ping: bool) -> None:
        row, params = (PING, Params()) if ping else (LIST_ROOTS, ListRootsParams())
        event = self.client.receive(self.server.ask(row, params, self.owner()))  # type: ignore[arg-type]
        assert isinstance(event, client.IncomingRequest)
        assert (event.id, event.operation) == (self.server.last_id, row.operation)
        assert ("server", event.id) not in self.used
        self.used.add(("server", event.id))
        self.questions[event.id] = event

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), fails=st.booleans(), twice=st.booleans())
    def answer(self, data: Any, fails: bool, twice: bool) -> None:
        question = self.questions.pop(data.draw(st.sampled_from(sorted(self.questions))))
        owner = self.server.waiting[question.id].owner
        answer = (
            self.client.reject(question, PeerError(-1, "no"))
            if fails
            else self.client.answer(question, ListRootsResult(roots=[]))
        )
        event = self.server.receive(answer.data)
        assert isinstance(event, FailedRequest if fails else Response)
        assert (event.id, event.waiting.owner) == (question.id, owner)
        if twice:
            self.late.append((False, answer.data))

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def withdraw(self, data: Any) -> None:
        question = self.questions.pop(data.draw(st.sampled_from(sorted(self.questions))))
        message = self.server.cancel(question.id, "not needed")
        assert message is not None
        event = self.client.receive(message)
        assert isinstance(event, client.ServerNotification)
        assert (event.event, event.params.request_id) == ("cancelled", question.id)
        self.late.append((False, self.client.answer(question, ListRootsResult(roots=[])).data))

    # What comes too late, or all at once

    @precondition(lambda self: self.late)
    @rule()
    def arrive_late(self) -> None:
        from_server, message = self.late.pop()
        event = self.client.receive(message) if from_server else self.server.receive(message)
        assert isinstance(event, Ignored)

    @precondition(lambda self: self.revision.batches)
    @rule(count=st.integers(1, 4))
    def call_in_a_batch(self, count: int) -> None:
        outgoing = [self.client.request(LIST_TOOLS, PageParams(), self.owner()) for _ in range(count)]
        batch = self.server.receive(b"[%b]" % b",".join(each.data for each in outgoing))
        assert isinstance(batch, server.ClientBatch)
        calls = [event for event in batch.events if isinstance(event, server.Call)]
        replies = [self.server.reply(call, RESULTS[call.request]) for call in reversed(calls)]
        heard = self.client.receive(b"[%b]" % b",".join(replies))
        assert isinstance(heard, client.ServerBatch)
        assert [event.id for event in heard.events if isinstance(event, Response)] == [
            each.id for each in reversed(outgoing)
        ]

    @invariant()
    def each_side_waits_for_what_the_other_has_not_answered(self) -> None:
        if hasattr(self, "calls"):
            assert set(self.client.waiting) == set(self.calls) == set(self.server.in_flight)
            assert set(self.server.waiting) == set(self.questions)
            assert (self.client.state, self.server.state) == (ConnectionState.OPEN, ConnectionState.OPEN)


RESULTS: dict[Any, Result] = {
    LIST_TOOLS: LIST_TOOLS.result(tools=[]),
    READ_RESOURCE: READ_RESOURCE.result(contents=[]),
    CALL_TOOL: CALL_TOOL.result(content=[]),
}

TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
