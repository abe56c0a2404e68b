"""Questions as requests of our own: in the revisions that have sessions.

https://modelcontextprotocol.io/specification/2025-11-25/basic#requests
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from carrel import Context, Server
from carrel.errors import PeerError, TransportError
from carrel.protocol.principal import Principal
from carrel.server.endpoint import ServerEndpoint
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.answering_client import CAPABLE, ELICIT, Respondent, accepted, answering
from support.memory_client import HANDSHAKES, JUNE, NOVEMBER, PLAIN, error, result

FORM_REVISIONS = (JUNE, NOVEMBER)
CANCELLED = "notifications/cancelled"


class House:
    """A server whose handlers note how they end."""

    def __init__(self, **options: Any) -> None:
        self.app = Server("house", **options)
        self.ends: asyncio.Queue[Any] = asyncio.Queue()

        @self.app.tool()
        async def greet(context: Context) -> str:
            return await self.ask(context)

        @self.app.resource("memo://name")
        async def name(context: Context) -> str:
            return await self.ask(context)

        @self.app.tool()
        async def capital(context: Context) -> str:
            return (await context.sample("?", 1)).text

        @self.app.tool()
        async def beside(context: Context) -> str:
            """Ask twice at once; the first refusal ends it."""
            await asyncio.gather(context.elicit("One?"), self.ask(context))
            return "both"

        @self.app.tool()
        async def hurried(context: Context) -> str:
            try:
                async with asyncio.timeout(0.01):
                    return await self.ask(context)
            except TimeoutError:
                return "too late"

    async def ask(self, context: Context) -> str:
        try:
            answer = await context.elicit("Name?")
        except BaseException as error:
            self.ends.put_nowait(error)
            raise
        self.ends.put_nowait(answer)
        return answer.data


async def ask(peer: MemoryPeer, tool: str = "greet") -> tuple[asyncio.Future[Any], dict[str, Any]]:
    """Call a tool; return its reply to come, and its question."""
    reply = peer.start("tools/call", {"name": tool, "arguments": {}})
    return reply, await peer.notification()


def is_silent(peer: MemoryPeer) -> bool:
    return peer._notifications.empty()


async def test_questions_are_numbered_and_the_ids_are_ours() -> None:
    async with answering(House().app, NOVEMBER, {ELICIT: accepted(value="Ada")}) as client:
        for expected in (1, 2, 3):
            reply, question = await ask(client.peer)
            assert (question["jsonrpc"], question["id"], question["method"]) == ("2.0", expected, ELICIT)
            client.respond(question)
            await reply
        assert client.peer.dispatcher.connection.waiting == {}


async def test_an_id_of_the_client_and_one_of_ours_may_be_the_same() -> None:
    async with answering(House().app, NOVEMBER, {ELICIT: accepted(value="Ada")}) as client:
        reply = client.peer.start("tools/call", {"name": "greet", "arguments": {}}, id=1)
        question = await client.peer.notification()
        assert question["id"] == 1
        client.respond(question)
        assert (await reply)["result"]["content"][0]["text"] == "Ada"


async def test_answers_may_come_in_any_order() -> None:
    async with memory.connect(House().app, NOVEMBER, **CAPABLE) as peer:
        client = Respondent(peer, {})
        waiting = [await ask(peer) for _ in range(10)]
        for number, (_, question) in reversed(list(enumerate(waiting))):
            client.reply(question["id"], accepted(value=f"name {number}"))
        texts = [(await reply)["result"]["content"][0]["text"] for reply, _ in waiting]
    assert texts == [f"name {number}" for number in range(10)]


@pytest.mark.parametrize("id", [0, 2, -1, "1", 1.0, "greet", 10**30, "", None])
async def test_a_response_to_an_unknown_request_changes_nothing(id: Any) -> None:
    async with memory.connect(House().app, NOVEMBER, **CAPABLE) as peer:
        client = Respondent(peer, {})
        client.reply(id, accepted(value="nobody"))
        reply, question = await ask(peer)
        client.reply(id, accepted(value="nobody"))
        client.reply(id, {"code": -1, "message": "nobody"})
        client.reply(question["id"], accepted(value="Ada"))
        assert (await reply)["result"]["content"][0]["text"] == "Ada"


async def test_the_first_answer_counts() -> None:
    async with memory.connect(House().app, NOVEMBER, **CAPABLE) as peer:
        client = Respondent(peer, {})
        reply, question = await ask(peer)
        client.reply(question["id"], accepted(value="Ada"))
        client.reply(question["id"], accepted(value="Eve"))
        client.reply(question["id"], {"code": -1, "message": "No."})
        assert (await reply)["result"]["content"][0]["text"] == "Ada"


@pytest.mark.parametrize("revision", FORM_REVISIONS)
@pytest.mark.parametrize("data", [{}, {"data": {"why": "busy"}}])
async def test_an_error_is_raised_where_the_question_was_asked(revision: str, data: dict[str, Any]) -> None:
    house = House()
    async with answering(house.app, revision, {ELICIT: {"code": -1, "message": "User rejected", **data}}) as client:
        result = await client.call("greet")
        raised = await house.ends.get()
        assert isinstance(raised, PeerError)
        assert (raised.code, raised.message, raised.data) == (-1, "User rejected", data.get("data"))
        assert result["isError"]
        assert "User rejected" in result["content"][0]["text"]
        assert await client.request("resources/read", uri="memo://name") == {
            "jsonrpc": "2.0",
            "id": 3,
            "error": PLAIN,
        }


@pytest.mark.parametrize("odd", ['"no"', "{}", '{"code": "x", "message": 5}', "[]"])
async def test_an_error_that_is_none_is_still_an_error(odd: str) -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        reply, question = await ask(peer)
        peer.feed(b'{"jsonrpc": "2.0", "id": %d, "error": %b}' % (question["id"], odd.encode()))
        assert (await reply)["result"]["isError"]
        raised = await house.ends.get()
    assert (raised.code, "cannot be read" in raised.message) == (-32603, True)


@pytest.mark.parametrize("depth", [900, 5_000, 100_000])
async def test_an_answer_that_is_nested_deeply_is_taken_or_refused_and_the_server_lives(depth: int) -> None:
    async with memory.connect(House().app, NOVEMBER, **CAPABLE) as peer:
        client = Respondent(peer, {})
        reply, question = await ask(peer)
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        peer.feed(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (question["id"], deep))
        if not reply.done():  # it was no message, or no answer that fits
            for _ in range(3):
                client.reply(peer.dispatcher.connection.last_id, accepted(value="Ada"))
                await asyncio.sleep(0)
        assert "result" in await asyncio.wait_for(reply, 60)


# Cancelling


@pytest.mark.parametrize("revision", FORM_REVISIONS)
async def test_a_call_that_is_cancelled_takes_its_question_back(revision: str) -> None:
    house = House()
    async with memory.connect(house.app, revision, **CAPABLE) as peer:
        reply = peer.start("tools/call", {"name": "greet", "arguments": {}}, id="mine")
        question = await peer.notification()
        peer.notify(CANCELLED, {"requestId": "mine"})
        assert isinstance(await house.ends.get(), asyncio.CancelledError)
        told = await peer.notification()
        assert told["method"] == CANCELLED
        assert told["params"]["requestId"] == question["id"]
        Respondent(peer, {}).reply(question["id"], accepted(value="late"))
        assert "result" in await peer.request("ping")
        assert not reply.done()
        assert peer.dispatcher.connection.waiting == {}


async def test_a_handler_may_wait_for_less_long() -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        reply, question = await ask(peer, "hurried")
        assert (await reply)["result"]["content"][0]["text"] == "too late"
        told = await peer.notification()
    assert (told["method"], told["params"]["requestId"]) == (CANCELLED, question["id"])


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_question_is_not_waited_for_for_ever(revision: str) -> None:
    async with memory.connect(House(state_ttl=0.01).app, revision, **CAPABLE) as peer:
        reply, question = await ask(peer, "capital")
        result = (await reply)["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == "The client did not answer within 0.01 seconds"
        told = await peer.notification()
    assert (told["method"], told["params"]["requestId"]) == (CANCELLED, question["id"])


async def test_questions_beside_a_failed_one_are_cancelled() -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        reply, first = await ask(peer, "beside")
        second = await peer.notification()
        Respondent(peer, {}).reply(first["id"], {"code": -1, "message": "No."})
        assert (await reply)["result"]["isError"]
        assert isinstance(await house.ends.get(), asyncio.CancelledError)
        told = await peer.notification()
        assert (told["method"], told["params"]["requestId"]) == (CANCELLED, second["id"])
        assert peer.dispatcher.connection.waiting == {}


async def test_a_question_ends_when_its_client_disconnects() -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        await ask(peer)
        await peer.dispatcher.close()
        assert isinstance(await house.ends.get(), asyncio.CancelledError)
        assert peer.dispatcher.connection.waiting == {}


async def test_so_does_one_whose_handler_goes_on_elsewhere() -> None:
    house = House()
    strays: list[asyncio.Task[Any]] = []

    @house.app.tool()
    async def linger(context: Context) -> str:
        strays.append(asyncio.ensure_future(house.ask(context)))
        await asyncio.Event().wait()
        return "never"

    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        await ask(peer, "linger")
        house.app.endpoint.disconnect(peer.dispatcher.connection, peer.dispatcher.client)
        assert isinstance(await house.ends.get(), TransportError)
        assert isinstance((await asyncio.gather(*strays, return_exceptions=True))[0], TransportError)


# Clients beside each other


async def test_answers_reach_who_asked_although_100_clients_use_the_same_ids() -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as first:
        peers = [first]
        for _ in range(99):
            peer = MemoryPeer(house.app, NOVEMBER)
            client = {"name": "memory", "version": "0"}
            await peer.request(
                "initialize", {"protocolVersion": NOVEMBER, "capabilities": CAPABLE, "clientInfo": client}
            )
            peers.append(peer)
        waiting = [await ask(peer) for peer in peers]
        assert {question["id"] for _, question in waiting} == {1}
        for number, peer in reversed(list(enumerate(peers))):
            Respondent(peer, {}).reply(1, accepted(value=f"client {number}"))
        texts = [(await reply)["result"]["content"][0]["text"] for reply, _ in waiting]
        assert texts == [f"client {number}" for number in range(100)]
        for peer in peers[1:]:
            await peer.dispatcher.close()


class Known:
    """Endpoint of a server that knows who calls."""

    def __init__(self, app: ServerEndpoint, who: str) -> None:
        self._app = app
        self._who = who

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    def answer(self, call: Any, channel: Any) -> Any:
        call.principal = Principal(subject=self._who)
        return self._app.answer(call, channel)


async def connect_as(app: Server, who: str) -> MemoryPeer:
    peer = MemoryPeer(SimpleNamespace(endpoint=Known(app.endpoint, who)), NOVEMBER)
    client = {"name": "memory", "version": "0"}
    await peer.request("initialize", {"protocolVersion": NOVEMBER, "capabilities": CAPABLE, "clientInfo": client})
    return peer


async def test_a_task_asks_again_the_client_that_fetches_its_result_after_its_session() -> None:
    house = House()

    @house.app.tool(task="required")
    async def register(context: Context) -> str:
        return await house.ask(context)

    async with memory.connect(house.app, NOVEMBER):
        first = await connect_as(house.app, "ada")
        made = await first.request("tools/call", {"name": "register", "arguments": {}, "task": {}})
        task = {"taskId": made["result"]["task"]["taskId"]}
        while (note := await first.notification())["method"] != ELICIT:
            pass
        await first.dispatcher.close()
        eve, second = await connect_as(house.app, "eve"), await connect_as(house.app, "ada")
        assert (await eve.request("tasks/result", task))["error"]["code"] == -32602
        Respondent(second, {}).reply(note["id"], accepted(value="too early"))
        result = second.start("tasks/result", task)
        while (note := await second.notification())["method"] != ELICIT:
            pass
        Respondent(eve, {}).reply(note["id"], accepted(value="Eve"))
        Respondent(second, {}).reply(note["id"], accepted(value="Ada"))
        assert (await result)["result"]["content"][0]["text"] == "Ada"
        await eve.dispatcher.close()
        await second.dispatcher.close()


async def test_an_answer_in_a_batch_is_an_answer() -> None:
    async with memory.connect(House().app, "2025-03-26", **CAPABLE) as peer:
        reply, question = await ask(peer, "capital")
        text = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
        messages = [
            {"jsonrpc": "2.0", "id": question["id"], "result": text},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        ]
        peer.feed(json.dumps(messages).encode())
        assert (await reply)["result"]["content"][0]["text"] == "Paris"


async def test_a_stateless_request_on_the_same_connection_is_not_asked_in_the_session() -> None:
    house = House()
    async with memory.connect(house.app, NOVEMBER, **CAPABLE) as peer:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": CAPABLE,
        }
        reply = await peer.request("tools/call", {"name": "greet", "arguments": {}, "_meta": meta})
        assert reply["result"]["resultType"] == "input_required"
        assert is_silent(peer)
        assert (await error(peer, "tools/call", name="greet", _meta={**meta, **NOTHING}))["code"] == -32021


NOTHING: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {}}


# requirement: 2025-11-25:client/elicitation#completion-notifications-for-url-mode-elicitation-1
@pytest.mark.requirement
async def test_only_the_client_that_was_asked_is_told_that_its_user_is_done() -> None:
    app = Server("shop")
    asked: list[tuple[Context, str | None]] = []

    @app.tool()
    async def pay(context: Context) -> str:
        visit = await context.elicit_url("Please pay.", "https://example.com/pay")
        asked.append((context, visit.id))
        return "on the way"

    async with answering(app, NOVEMBER, {ELICIT: {"action": "accept"}}) as client:
        other = MemoryPeer(app, NOVEMBER)
        params = {"protocolVersion": NOVEMBER, "clientInfo": {"name": "other", "version": "1"}}
        await result(other, "initialize", **params, capabilities={"elicitation": {"url": {}}})
        await client.text("pay")
        context, id = asked[0]
        await context.elicitation_completed(id)
        assert (await client.peer.notification())["params"] == {"elicitationId": id}
        await result(other, "ping")
        assert other._notifications.empty()
        await other.dispatcher.close()
