"""What stdio and the in-memory transport have in common: answers at once and later, cancelling, batches, the end."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from carrel import Limits
from carrel.transports.server.dispatcher import Dispatcher
from support.stdio_process import call, cancelled, initialize, note, request, text_of


class Sent:
    """A channel that keeps what is sent, and wakes who waits for it."""

    def __init__(self):
        self.messages = []
        self._arrived = asyncio.Event()

    def send(self, message, key=None):
        self.messages.append(msgspec.json.decode(message))
        self._arrived.set()

    async def drain(self):
        await asyncio.sleep(0)

    def pause(self, retry=None):
        raise AssertionError("nothing here pauses")

    async def wait(self, count=1):
        async with asyncio.timeout(60):
            while len(self.messages) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.messages


class Talk:
    """A dispatcher in which the handshake is done."""

    def __init__(self, app, revision):
        self.sent = Sent()
        self.dispatcher = Dispatcher(app.endpoint, self.sent)
        self.give(initialize(revision))

    def give(self, message):
        """Give it a message; return the reply that was there at once."""
        reply = self.dispatcher.receive(msgspec.json.encode(message))
        return None if reply is None else msgspec.json.decode(reply)


@pytest.fixture
async def talk(shop):
    await shop.app.endpoint.start()
    talks = []

    def start(revision="2025-11-25"):
        talks.append(Talk(shop.app, revision))
        return talks[-1]

    yield start
    for talk in talks:
        await talk.dispatcher.close()
    await shop.app.endpoint.stop()


async def test_responses_that_are_ready_are_returned_and_others_sent(talk, shop):
    talk = talk()
    assert text_of(talk.give(call(1, "echo", text="x"))) == "x"
    assert talk.give(call(2, "wait")) is None
    assert talk.sent.messages == []
    shop.go.set()
    (reply,) = await talk.sent.wait()
    assert (reply["id"], text_of(reply)) == (2, "waited")


async def test_notifications_and_responses_have_no_reply(talk):
    talk = talk()
    for message in (
        note("notifications/initialized"),
        note("notifications/unknown"),
        note("notifications/cancelled"),
        note("notifications/cancelled", requestId=[1]),
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}},
    ):
        assert talk.give(message) is None
    assert talk.sent.messages == []


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancelled_request_is_never_answered_however_early_it_is_cancelled(talk, shop, turns):
    talk = talk()
    talk.give(call(1, "wait"))
    for _ in range(turns):
        await asyncio.sleep(0)
    talk.give(cancelled(1))
    await shop.cancelled.wait()
    await shop.finished.wait()
    await asyncio.sleep(0)  # the turn in which its task ends
    assert talk.give(request(2, "ping"))["result"] == {}
    assert text_of(talk.give(call(1, "echo", text="the id is free"))) == "the id is free"
    assert talk.sent.messages == []


async def test_ids_of_different_types_are_different_ids(talk, shop):
    talk = talk()
    assert talk.give(call(1, "wait")) is None
    assert talk.give(call("1", "wait")) is None
    talk.give(cancelled("1"))
    await shop.cancelled.wait()
    shop.go.set()
    (reply,) = await talk.sent.wait()
    assert reply["id"] == 1


async def test_an_id_in_work_cannot_be_used_again(talk):
    talk = talk()
    talk.give(call(1, "wait"))
    assert "still in use" in talk.give(request(1, "ping"))["error"]["message"]


async def test_there_is_a_limit_to_what_is_in_work_and_it_is_named(talk, shop):
    shop.app.limits = Limits(max_requests_in_flight=10)
    talk = talk("2025-03-26")
    for id in range(10):
        assert talk.give(call(id, "wait")) is None
    refused = talk.give(call(-1, "wait"))
    assert (refused["id"], refused["error"]["code"]) == (-1, -32603)
    assert refused["error"]["message"] == "Too many requests at a time: at most 10 (max_requests_in_flight)"
    assert talk.give(request(-1, "ping"))["result"] == {}
    talk.give([call(-1, "wait"), request(-2, "ping")])
    (replies,) = await talk.sent.wait()
    assert ["result" in reply for reply in replies] == [False, True]
    talk.sent.messages.clear()
    assert talk.give(cancelled(0)) is None
    await shop.cancelled.wait()
    await shop.finished.wait()
    for _ in range(3):
        await asyncio.sleep(0)  # until its task has ended
    assert talk.give(call(0, "wait")) is None
    shop.go.set()
    replies = await talk.sent.wait(10)
    assert sorted(reply["id"] for reply in replies) == list(range(10))


async def test_the_id_of_a_cancelled_request_is_free_at_once_although_its_handler_goes_on(talk, shop):
    @shop.app.tool()
    async def stubborn() -> str:
        while not shop.go.is_set():
            try:
                await shop.go.wait()
            except asyncio.CancelledError:
                shop.cancelled.set()
        return "never mind"

    shop.app.limits = Limits(max_requests_in_flight=2)
    talk = talk()
    talk.give(call(1, "stubborn"))
    talk.give(cancelled(1))
    assert talk.give(call(1, "wait")) is None
    await shop.cancelled.wait()
    assert "Too many" in talk.give(call(2, "wait"))["error"]["message"], "what goes on has its slot until it ends"
    shop.go.set()
    (reply,) = await talk.sent.wait()
    assert (reply["id"], text_of(reply)) == (1, "waited")


# Batches


async def test_a_batch_is_answered_as_one_when_the_last_answer_is_there(talk, shop):
    talk = talk("2025-03-26")
    batch = [call(1, "wait"), note("notifications/x"), request(2, "ping"), call(3, "nonesuch"), {"x": 1}, []]
    assert talk.give(batch) is None
    await shop.begun.wait()
    assert talk.sent.messages == []
    shop.go.set()
    (replies,) = await talk.sent.wait()
    assert [reply.get("id") for reply in replies] == [1, 2, 3, None, None]
    assert ["result" in reply for reply in replies] == [True, True, False, False, False]


async def test_a_batch_that_asks_nothing_has_no_answer(talk):
    talk = talk("2025-03-26")
    talk.give([note("notifications/x"), {"jsonrpc": "2.0", "id": 1, "result": {}}])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert talk.sent.messages == []


@pytest.mark.parametrize("where", ["in the batch", "after it"])
async def test_a_call_in_a_batch_can_be_cancelled_and_the_others_are_answered(talk, shop, where):
    talk = talk("2025-03-26")
    batch = [call(1, "wait"), request(2, "ping")]
    if where == "in the batch":
        talk.give([*batch, cancelled(1)])
    else:
        talk.give(batch)
        await shop.begun.wait()
        talk.give(cancelled(1))
    (replies,) = await talk.sent.wait()
    assert [reply["id"] for reply in replies] == [2]


async def test_answers_of_a_batch_that_wait_for_the_others_count_as_kept(talk, shop):
    shop.app.limits = Limits(max_kept_bytes_per_client=1_000_000)
    talk = talk("2025-03-26")
    opened = shop.app.endpoint.budget.used
    batch = [call(id, "echo", text="x" * 200_000) for id in range(4)]
    talk.give([*batch, call("last", "wait")])
    await shop.begun.wait()
    assert shop.app.endpoint.budget.used > opened + 400_000
    shop.go.set()
    (replies,) = await talk.sent.wait()
    assert [reply["id"] for reply in replies] == [0, 1, 2, 3, "last"]
    answered = [len(text_of(reply)) for reply in replies if "result" in reply]
    refused = [reply["error"]["message"] for reply in replies if "error" in reply]
    assert answered[:2] == [200_000] * 2
    assert all("max_kept_bytes_per_client" in message for message in refused)
    assert shop.app.endpoint.budget.used == opened


async def test_initialize_must_not_be_in_a_batch(talk):
    talk = talk("2025-03-26")
    talk.give([initialize(id=7), request(8, "ping")])
    (replies,) = await talk.sent.wait()
    assert "initialize within a batch" in replies[0]["error"]["message"]
    assert replies[1]["result"] == {}


# The end


async def test_at_the_end_work_gets_its_grace_and_is_answered(talk, shop):
    talk = talk()
    talk.give(call(1, "wait"))
    closing = asyncio.create_task(talk.dispatcher.close(10))
    await shop.begun.wait()
    shop.go.set()
    await closing
    assert text_of(talk.sent.messages[0]) == "waited"


@pytest.mark.parametrize("kind", ["call", "batch"])
async def test_requests_that_outlast_the_grace_period_are_cancelled(talk, shop, kind):
    talk = talk("2025-03-26")
    talk.give(call(1, "wait") if kind == "call" else [call(1, "wait")])
    await talk.dispatcher.close(0.01)
    assert shop.cancelled.is_set()
    assert talk.sent.messages == []


async def test_a_handler_that_does_not_let_itself_be_cancelled_does_not_stop_the_end(talk, shop, monkeypatch):
    monkeypatch.setattr("carrel.transports.server.dispatcher.CLEANUP", 0.01)

    @shop.app.tool()
    async def stubborn() -> str:
        while not shop.go.is_set():
            try:
                await shop.go.wait()
            except asyncio.CancelledError:
                shop.cancelled.set()
        shop.finished.set()
        return "never mind"

    talk = talk()
    talk.give(call(1, "stubborn"))
    await talk.dispatcher.close()
    assert shop.cancelled.is_set()
    shop.go.set()
    await shop.finished.wait()
    await asyncio.sleep(0)
    assert talk.sent.messages == []


async def test_a_session_that_ends_hears_nothing_more(talk, shop):
    talk = talk()
    talk.give(request(1, "resources/subscribe", {"uri": "memo://text"}))
    assert len(shop.app.endpoint.runtime.hub) == 1
    await talk.dispatcher.close()
    assert len(shop.app.endpoint.runtime.hub) == 0
