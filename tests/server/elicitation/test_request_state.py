"""Rounds without a session: what the client keeps for us is sealed, and belongs to one request of one caller.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel import Context, Server
from carrel.errors import ConfigError, InvalidParams
from carrel.limits import Budget
from carrel.protocol.principal import Principal
from carrel.server.elicitation.request_state import Exchanges, RequestStateCipher
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.replica import Replica
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.answering_client import CAPABLE, ELICIT, SAMPLE, accepted, answering, said, state_of
from support.examples import examples
from support.memory_client import LATEST, NOVEMBER, PLAIN, error, result

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
VALUE = {"answers": {"a": {"secret": "Solaris"}}, "digests": {"a": b"\x00\xff"}, "kept": {"n": [1, None, 2.5]}}


# Sealing


def test_a_sealed_state_can_be_opened_and_differs_every_time() -> None:
    state_cipher = RequestStateCipher([KEY])
    one, other = state_cipher.seal(VALUE, b"x"), state_cipher.seal(VALUE, b"x")
    assert one != other
    assert state_cipher.open(one, b"x") == state_cipher.open(other, b"x") == VALUE


def test_a_request_state_is_encrypted() -> None:
    state = RequestStateCipher([KEY]).seal(VALUE, b"x")
    assert b"Solaris" not in base64.b64decode(state)
    assert "Solaris" not in state


def test_no_bit_of_it_can_be_changed() -> None:
    state_cipher = RequestStateCipher([KEY])
    data = base64.b64decode(state_cipher.seal(VALUE, b"x"))
    for index in range(len(data)):
        for bit in (1, 128):
            changed = data[:index] + bytes([data[index] ^ bit]) + data[index + 1 :]
            with pytest.raises(InvalidParams, match="requestState is not valid"):
                state_cipher.open(base64.b64encode(changed).decode(), b"x")


@pytest.mark.parametrize(
    "change",
    [
        lambda state: "",
        lambda state: state[:-4],
        lambda state: state[:8],
        lambda state: state + "AAAA",
        lambda state: state + "-TAMPERED",
        lambda state: state + "\n",
        lambda state: " " + state,
        lambda state: state + "é",
        lambda state: state.swapcase(),
        lambda state: state * 2,
        lambda state: "A" * 1_000_000,
        lambda state: '{"answers": {}}',
    ],
)
def test_a_truncated_request_state_is_refused(change: Callable[[str], str]) -> None:
    state_cipher = RequestStateCipher([KEY])
    with pytest.raises(InvalidParams, match="requestState is not valid"):
        state_cipher.open(change(state_cipher.seal(VALUE, b"x")), b"x")


@given(st.text())
@settings(max_examples=examples(50))
def test_any_text_is_refused_in_the_same_way(text: str) -> None:
    with pytest.raises(InvalidParams):
        RequestStateCipher([KEY]).open(text, b"x")


def test_a_request_state_does_not_open_for_another_request() -> None:
    state_cipher = RequestStateCipher([KEY])
    with pytest.raises(InvalidParams, match="requestState is not valid"):
        state_cipher.open(state_cipher.seal(VALUE, b"x"), b"y")


def test_a_request_state_expires() -> None:
    with pytest.raises(InvalidParams, match="requestState has expired"):
        RequestStateCipher([KEY]).open(RequestStateCipher([KEY], ttl=-1).seal(VALUE, b"x"), b"x")


def test_keys_can_be_changed_without_losing_what_is_on_its_way() -> None:
    old = RequestStateCipher([KEY]).seal(VALUE, b"x")
    both = RequestStateCipher([OTHER, KEY])
    assert both.open(old, b"x") == VALUE
    new = both.seal(VALUE, b"x")
    assert RequestStateCipher([OTHER]).open(new, b"x") == VALUE
    for state_cipher, state in (
        (RequestStateCipher([KEY]), new),
        (RequestStateCipher([OTHER]), old),
        (RequestStateCipher(), old),
    ):
        with pytest.raises(InvalidParams, match="requestState is not valid"):
            state_cipher.open(state, b"x")


@pytest.mark.parametrize("key", [b"", b"short", bytes(31), bytes(33)])
def test_a_key_has_32_bytes(key: bytes) -> None:
    for make in (RequestStateCipher, lambda keys: Server("s", state_keys=keys)):
        with pytest.raises(ConfigError, match="32 bytes"):
            make([KEY, key])


def test_there_has_to_be_time_for_an_answer() -> None:
    with pytest.raises(ConfigError, match="more than 0 seconds"):
        Server("s", state_ttl=0)


# Rounds


class Counter:
    """A server that counts how often its handlers run and do what should happen once."""

    def __init__(self, **options: Any) -> None:
        self.app = app = Server("counter", **options)
        self.runs = 0
        self.bookings = 0

        async def book(context: Context, title: str = "", pages: int = 0) -> str:
            self.runs += 1
            number = await context.once("number", self.book)
            name = await context.elicit("Name?", key="name")
            sure = await context.elicit(f"Book number {number} for {name.data}?", bool, key="sure")
            return f"{name.data} {sure.data} {number}"

        app.tools.add(book)
        app.prompts.add(book)

        @app.tool()
        async def other(context: Context) -> str:
            return (await context.elicit("Name?", key="name")).action

        @app.resource("memo://{name}")
        async def memo(name: str, context: Context) -> str:
            return f"{name} {(await context.elicit('Name?', key='name')).action}"

    async def book(self) -> int:
        await asyncio.sleep(0)
        self.bookings += 1
        return self.bookings


ADA, YES = accepted(value="Ada"), accepted(value=True)


async def ask(peer: MemoryPeer, name: str = "book", **params: Any) -> dict[str, Any]:
    return await peer.request("tools/call", {"name": name, "arguments": {}, **params})


def keys_of(reply: dict[str, Any]) -> list[str]:
    """Return the keys of what a reply asks for."""
    assert reply["result"]["resultType"] == "input_required", reply
    return list(reply["result"]["inputRequests"])


async def test_a_handler_runs_once_per_round_and_does_once_what_should_be_done_once() -> None:
    counter = Counter()
    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        first = await ask(peer)
        assert keys_of(first) == ["name"]
        second = await ask(peer, inputResponses={"name": ADA}, requestState=state_of(first))
        assert keys_of(second) == ["sure"]
        assert state_of(second) != state_of(first)
        third = await ask(peer, inputResponses={"sure": YES}, requestState=state_of(second))
    assert third["result"]["content"][0]["text"] == "Ada True 1"
    assert third["result"]["resultType"] == "complete"
    assert (counter.runs, counter.bookings) == (3, 1)
    assert "requestState" not in third["result"]


async def test_a_result_that_asks_has_the_form_of_every_result() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        asked = (await ask(peer))["result"]
    assert set(asked) == {"resultType", "inputRequests", "requestState", "_meta"}
    assert asked["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "counter"
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    assert asked["inputRequests"] == {
        "name": {"method": ELICIT, "params": {"message": "Name?", "requestedSchema": schema}}
    }


@pytest.mark.parametrize("given", [{}, {"inputResponses": {}}, {"inputResponses": {"sure": YES, "wrong": ADA}}])
async def test_unanswered_questions_are_asked_again(given: dict[str, Any]) -> None:
    counter = Counter()
    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        reply = await ask(peer)
        for _ in range(3):
            reply = await ask(peer, **given, requestState=state_of(reply))
            assert keys_of(reply) == ["name"]
        reply = await ask(peer, inputResponses={"name": ADA}, requestState=state_of(reply))
        assert keys_of(reply) == ["sure"]
    assert counter.bookings == 1


async def test_only_what_was_not_answered_is_asked_again() -> None:
    app = Server("curious")

    @app.tool()
    async def both(context: Context) -> str:
        name, capital = await asyncio.gather(context.elicit("Name?"), context.sample("Capital?", 5))
        return f"{name.data} {capital.text}"

    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        first = await ask(peer, "both")
        assert keys_of(first) == ["elicit-1", "sample-1"]
        given = {"elicit-1": accepted(value=5), "sample-1": said("Paris")}
        second = await ask(peer, "both", inputResponses=given, requestState=state_of(first))
        assert keys_of(second) == ["elicit-1"]
        third = await ask(peer, "both", inputResponses={"elicit-1": ADA}, requestState=state_of(second))
    assert third["result"]["content"][0]["text"] == "Ada Paris"


async def test_an_answer_to_a_question_that_was_not_asked_yet_is_not_kept_for_it() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        first = await ask(peer)
        second = await ask(peer, inputResponses={"name": ADA, "sure": YES}, requestState=state_of(first))
        assert keys_of(second) == ["sure"]


async def test_an_answer_that_was_given_cannot_be_changed_later() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        first = await ask(peer)
        second = await ask(peer, inputResponses={"name": ADA}, requestState=state_of(first))
        given = {"name": accepted(value="Eve"), "sure": YES}
        third = await ask(peer, inputResponses=given, requestState=state_of(second))
    assert third["result"]["content"][0]["text"] == "Ada True 1"


async def test_input_responses_may_come_with_the_first_request() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        reply = await ask(peer, inputResponses={"name": ADA, "sure": YES, "other": 5})
    assert reply["result"]["content"][0]["text"] == "Ada True 1"


async def test_a_question_that_is_another_one_by_now_is_asked_anew(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("files")
    files = ["a", "b", "c"]

    @app.tool()
    async def clear(context: Context) -> str:
        sure = await context.elicit(f"Delete {len(files)} files?", bool, key="sure")
        return f"{sure.data} {len(files)}"

    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        first = await ask(peer, "clear")
        files.append("d")
        second = await ask(peer, "clear", inputResponses={"sure": YES}, requestState=state_of(first))
        assert second["result"]["inputRequests"]["sure"]["params"]["message"] == "Delete 4 files?"
        assert "request sure differs from the previous round" in caplog.text
        third = await ask(peer, "clear", inputResponses={"sure": YES}, requestState=state_of(second))
    assert third["result"]["content"][0]["text"] == "True 4"


async def test_questions_are_numbered_by_kind_unless_they_have_keys() -> None:
    app = Server("curious")

    @app.tool()
    async def many(context: Context) -> str:
        await asyncio.gather(
            context.elicit("One?"),
            context.elicit("Two?", key="two"),
            context.elicit("Three?", bool),
            context.elicit_url("Pay.", "https://example.com/"),
            context.sample("Four?", 1),
            context.list_roots(),
            context.list_roots(key="again"),
        )
        return "done"

    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        keys = keys_of(await ask(peer, "many"))
    assert keys == ["elicit-1", "two", "elicit-2", "elicit_page-1", "sample-1", "list_roots-1", "again"]


@pytest.mark.parametrize("given", [[], 5, "name", True])
async def test_answers_that_are_no_object_are_refused(given: Any) -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        refused = await error(peer, "tools/call", name="book", arguments={}, inputResponses=given)
    assert refused["code"] == -32602
    assert "inputResponses" in refused["message"]


@pytest.mark.parametrize("state", [5, {}, ["x"]])
async def test_a_state_that_is_no_text_is_refused(state: Any) -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        refused = await error(peer, "tools/call", name="book", arguments={}, requestState=state)
    assert refused["code"] == -32602


async def test_nothing_but_reading_calling_and_prompting_is_answered_with_questions() -> None:
    counter = Counter()

    @counter.app.tool()
    async def ask_within(context: Context) -> str:
        return (await context.elicit("Name?")).action

    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"):
            assert (await result(peer, method))["resultType"] == "complete"


# What a state belongs to


async def state_for(peer: MemoryPeer, method: str = "tools/call", **params: Any) -> str:
    return state_of(await peer.request(method, {"name": "book", "arguments": {"title": "x"}, **params}))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "book", "arguments": {"title": "y"}}),
        ("tools/call", {"name": "book", "arguments": {"title": "x", "pages": 1}}),
        ("tools/call", {"name": "book", "arguments": {}}),
        ("tools/call", {"name": "other", "arguments": {}}),
        ("prompts/get", {"name": "book", "arguments": {"title": "x"}}),
        ("resources/read", {"uri": "memo://book"}),
    ],
)
async def test_a_state_is_refused_with_another_request(method: str, params: dict[str, Any]) -> None:
    counter = Counter()
    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        state = await state_for(peer)
        refused = await error(peer, method, **params, inputResponses={"name": ADA}, requestState=state)
        assert refused == {"code": -32602, "message": "Invalid params: requestState is not valid for this request"}
        assert "result" in await peer.request(method, params)


async def test_a_state_of_one_resource_is_refused_with_another() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        state = state_of(await peer.request("resources/read", {"uri": "memo://one"}))
        given = {"inputResponses": {"name": ADA}, "requestState": state}
        assert (await error(peer, "resources/read", uri="memo://two", **given))["code"] == -32602
        assert (await result(peer, "resources/read", uri="memo://one", **given))["contents"][0]["text"] == "one accept"


async def test_a_state_belongs_to_the_request_whatever_its_id_its_progress_token_and_the_order_of_arguments() -> None:
    async with memory.connect(Counter().app, LATEST, **CAPABLE) as peer:
        first = await peer.request(
            "tools/call",
            {"name": "book", "arguments": {"title": "x", "pages": 2}, "_meta": {"progressToken": 1}},
        )
        second = await ask(
            peer,
            arguments={"pages": 2, "title": "x"},
            inputResponses={"name": ADA},
            requestState=state_of(first),
            _meta={"progressToken": 2},
        )
    assert keys_of(second) == ["sure"]


async def ask_as(app: Server, peer: MemoryPeer, who: str | None, **params: Any) -> dict[str, Any]:
    """Ask as somebody whom the transport has found out."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        "io.modelcontextprotocol/clientCapabilities": CAPABLE,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = {**message, "params": {"name": "book", "arguments": {}, "_meta": meta, **params}}
    call = peer.dispatcher.connection.receive(msgspec.json.encode(body))
    call.client = peer.dispatcher.client
    call.principal = None if who is None else Principal(subject=who, issuer="https://example.com")
    answer = await app.endpoint.answer(call, peer)
    reply: dict[str, Any] = msgspec.json.decode(getattr(answer, "reply", answer))
    return reply


@pytest.mark.parametrize("thief", [None, "eve", "Ada", ""])
async def test_a_request_state_is_refused_from_another_principal(thief: str | None) -> None:
    app = Counter().app
    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        state = state_of(await ask_as(app, peer, "ada"))
        given = {"inputResponses": {"name": ADA}, "requestState": state}
        assert (await ask_as(app, peer, thief, **given))["error"]["code"] == -32602
        assert keys_of(await ask_as(app, peer, "ada", **given)) == ["sure"]


async def test_a_tampered_state_is_refused_before_the_handler_does_anything() -> None:
    counter = Counter()
    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        state = state_of(await ask(peer))
        refused = await error(peer, "tools/call", name="book", arguments={}, requestState=state + "-TAMPERED")
    assert refused["code"] == -32602
    assert counter.bookings == 1


async def test_a_state_that_is_too_old_is_refused() -> None:
    async with memory.connect(Counter(state_ttl=1e-9).app, LATEST, **CAPABLE) as peer:
        state = state_of(await ask(peer))
        refused = await error(peer, "tools/call", name="book", arguments={}, requestState=state)
    assert refused == {"code": -32602, "message": "Invalid params: requestState has expired"}


# Used once


def vending(**options: Any) -> tuple[Server, list[str]]:
    """Return a server whose tool asks twice and then sells something, and the list of what was sold."""
    app, sold = Server("vending", **options), list[str]()

    @app.tool()
    async def buy(context: Context) -> str:
        number = await context.once("number", lambda: os.urandom(4).hex())
        await context.elicit("Which one?", key="name")
        await context.elicit("Sure?", bool, key="sure")
        sold.append(number)
        return number

    @app.tool(annotations={"idempotentHint": True})
    async def hold(context: Context) -> str:
        await context.elicit("Which one?", key="name")
        sold.append("held")
        return "held"

    @app.prompt()
    async def plan(context: Context) -> str:
        return (await context.elicit("Which one?", key="name")).action

    return app, sold


USED = {
    "code": -32602,
    "message": "Invalid params: requestState has been used already; make the request again without it",
}
NAME, SURE = {"inputResponses": {"name": ADA}}, {"inputResponses": {"sure": YES}}


async def test_a_state_buys_one_thing_however_often_it_is_sent() -> None:
    app, sold = vending()
    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        first = state_of(await ask(peer, "buy"))
        second = state_of(await ask(peer, "buy", **NAME, requestState=first))
        replies = await asyncio.gather(*(ask(peer, "buy", **SURE, requestState=second) for _ in range(20)))
        replies += [
            await ask(peer, "buy", **given, requestState=state) for given, state in ((SURE, second), (NAME, first))
        ]
    assert len(sold) == 1
    assert [reply["result"]["content"][0]["text"] for reply in replies if "result" in reply] == sold
    assert [reply["error"] for reply in replies if "error" in reply] == [USED] * 21


async def test_a_client_that_lost_further_questions_may_send_the_same_answers_again_and_no_others() -> None:
    app, sold = vending()
    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        first = state_of(await ask(peer, "buy"))
        one = state_of(await ask(peer, "buy", **NAME, requestState=first))
        other = state_of(await ask(peer, "buy", **NAME, requestState=first))
        assert one != other
        changed = await ask(peer, "buy", inputResponses={"name": accepted(value="Eve")}, requestState=first)
        assert changed["error"] == USED
        done = await ask(peer, "buy", **SURE, requestState=other)
        assert done["result"]["content"][0]["text"] == sold[0]
        assert (await ask(peer, "buy", **SURE, requestState=one))["error"] == USED, "they are one purchase"
    assert len(sold) == 1


async def test_repeatable_requests_take_a_state_again() -> None:
    app, sold = vending()
    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        state = state_of(await ask(peer, "hold"))
        for _ in range(2):
            assert "result" in await ask(peer, "hold", **NAME, requestState=state)
        state = state_of(await peer.request("prompts/get", {"name": "plan"}))
        for _ in range(2):
            assert "messages" in await result(peer, "prompts/get", name="plan", **NAME, requestState=state)
    assert sold == ["held", "held"]
    assert len(app.endpoint.runtime.exchanges) == 0


async def test_a_state_whose_request_was_refused_before_the_handler_began_is_not_used() -> None:
    app, _ = vending()
    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        first = state_of(await ask(peer, "buy"))
        assert "error" in await ask(peer, "buy", inputResponses={"name": ADA}, requestState=first + "x")
        assert keys_of(await ask(peer, "buy", **NAME, requestState=first)) == ["sure"]


async def test_a_state_is_verified_before_a_handler_does_anything() -> None:
    app, done = Server("hasty"), []

    @app.tool()
    async def act(context: Context) -> str:
        done.append(1)
        return (await context.elicit("Sure?")).action

    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        assert (await ask(peer, "act", requestState="AAAA"))["error"]["code"] == -32602
    assert done == []


async def test_records_of_used_states_are_bounded_and_removed_when_they_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("carrel.server.elicitation.request_state.time.monotonic", lambda: now)
    budget = Budget(total=10_000_000, share=5120)
    exchanges = Exchanges(Replica(MemoryState(MemoryTables(clock=lambda: now))), budget, ttl=600)
    for number in range(10):
        await exchanges.use(bytes([number]), 1, b"", "eve")
    with pytest.raises(InvalidParams, match="too many requests under way"):
        await exchanges.use(b"more", 1, b"", "eve")
    await exchanges.use(b"hers", 1, b"", "ada")
    now = 599.0
    await exchanges.ask(bytes([3]))
    with pytest.raises(InvalidParams, match="used already"):
        await exchanges.use(bytes([4]), 1, b"", "eve")
    now = 601.0
    await exchanges.use(b"more", 1, b"", "eve")
    assert len(exchanges) == 2, "the one that asked goes on"
    assert (budget.used_by("ada"), budget.used_by("eve")) == (0, 1024)


# Replicas


@pytest.mark.parametrize(
    ("keys", "others", "accepted_there"),
    [
        ([KEY], [KEY], True),
        ([KEY], [OTHER, KEY], True),
        ([OTHER, KEY], [OTHER], True),
        ([KEY], [OTHER], False),
        ([], [], False),
        ([], [KEY], False),
    ],
)
async def test_any_replica_that_has_the_key_goes_on(
    keys: list[bytes], others: list[bytes], accepted_there: bool
) -> None:
    one, other = Counter(state_keys=keys), Counter(state_keys=others)
    async with (
        memory.connect(one.app, LATEST, **CAPABLE) as here,
        memory.connect(other.app, LATEST, **CAPABLE) as there,
    ):
        reply = await ask(here)
        reply = await ask(there, inputResponses={"name": ADA}, requestState=state_of(reply))
        if accepted_there:
            assert keys_of(reply) == ["sure"]
            assert (one.bookings, other.bookings) == (1, 0)
        else:
            assert reply["error"]["code"] == -32602


# Once


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        ((1, "a", 2.5), [1, "a", 2.5]),
        ({"a": {"b": True}}, {"a": {"b": True}}),
        ({3}, [3]),
        (b"\x00\xff", "AP8="),
    ],
    ids=repr,
)
async def test_a_step_that_ran_once_returns_the_same_in_every_round(value: Any, kept: Any, revision: str) -> None:
    app = Server("curious")
    seen = []

    @app.tool()
    async def work(context: Context) -> str:
        seen.append(await context.once("value", lambda: value))
        await context.elicit("Name?")
        seen.append(await context.once("value", lambda: "something else"))
        return "done"

    async with answering(app, revision, {ELICIT: ADA}) as client:
        await client.text("work")
    assert seen == [kept] * (3 if revision == LATEST else 2)


async def test_a_failed_step_may_be_run_again() -> None:
    app = Server("curious")
    attempts = []

    @app.tool()
    async def work(context: Context) -> str:
        await context.elicit("Name?")
        try:
            return str(await context.once("value", attempt))
        except OSError:
            return str(await context.once("value", attempt))

    def attempt() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("busy")
        return len(attempts)

    async with answering(app, LATEST, {ELICIT: ADA}) as client:
        assert await client.text("work") == "2"


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_values_without_json_cannot_be_in_a_request_state(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def work(context: Context) -> str:
        return str(await context.once("value", object))

    async with answering(app, revision, {ELICIT: ADA}) as client:
        failed = await client.call("work")
    assert failed["isError"]
    assert "The type object cannot be encoded as JSON" in failed["content"][0]["text"]


# What it costs


async def test_without_the_library_that_seals_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    counter = Counter()
    async with memory.connect(counter.app, LATEST, **CAPABLE) as peer:
        assert await error(peer, "resources/read", uri="memo://x") == PLAIN
    assert "pip install 'carrel[ask]'" in caplog.text
    async with answering(counter.app, NOVEMBER, {ELICIT: ADA}) as client:
        assert (await client.request("resources/read", uri="memo://x"))["result"]


@pytest.mark.slow
async def test_a_server_that_does_not_ask_loads_nothing_for_it() -> None:
    program = """
import asyncio, sys
from carrel import Context, Server
from carrel.transports import memory
app = Server("plain", state_keys=[bytes(32)])
@app.tool()
async def plain(context: Context) -> str:
    return "plain"
async def main():
    async with memory.connect(app) as peer:
        assert "result" in await peer.request("tools/call", {"name": "plain", "arguments": {}})
asyncio.run(main())
unused = {"cryptography", "hashlib", *(f"carrel.server.{name}" for name in ("forms", "questions", "request_state"))}
assert not unused & set(sys.modules), unused & set(sys.modules)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=dict(os.environ))
    assert await process.wait() == 0


async def test_a_model_that_is_asked_in_rounds_is_heard_in_the_next_one() -> None:
    app = Server("chain")

    @app.tool()
    async def chain(context: Context) -> str:
        text = ""
        for number in range(3):
            text += (await context.sample(f"{number} {text}", 5)).text
        return text

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert method == SAMPLE
        return said(params["messages"][0]["content"]["text"][0])

    async with answering(app, LATEST, answer) as client:
        assert await client.text("chain") == "012"
    assert len(client.rounds) == 4
