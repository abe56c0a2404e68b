"""Calls that wait at one replica for a stateless client, and continue at its request to another replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from carrel import Context, Server
from carrel.errors import InvalidParams
from carrel.host import relays
from carrel.host.relay import MAX_KEPT, MAX_KEPT_BYTES, Relay
from carrel.host.remote import RemoteProvider
from carrel.host.resumed_calls import ResumedContext
from carrel.state.connections import ReplicaLost
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.records import SlotExpired
from carrel.transports.memory import MemoryPeer, connect

SESSION, LATEST = "2025-11-25", "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ADA = {"action": "accept", "content": {"name": "Ada"}}
KEY = bytes(32)
LOST = "may have done some of its work"


class Far:
    """Servers that count together how often their tools have run."""

    def __init__(self) -> None:
        self.runs = 0
        self.cancelled = asyncio.Event()
        self.running = asyncio.Event()

    def server(self) -> Server[Any]:
        app: Server[Any] = Server("far")

        @app.tool(structured=False)
        async def greet(context: Context) -> str:
            self.runs += 1
            return str((await context.elicit("Who?", FORM, key="who")).data["name"])

        @app.tool(structured=False)
        async def survey(context: Context) -> str:
            self.runs += 1
            one, two, three = await asyncio.gather(
                context.elicit("Who?", FORM, key="who"),
                context.sample("Capital?", 10, key="capital"),
                context.list_roots(key="roots"),
            )
            page = await context.elicit_url("Pay", "https://pay.example/", key="page")
            return f"{one.data['name']} {two.content.text} {three[0].name} {page.action}"  # type: ignore[union-attr]

        @app.tool(structured=False)
        async def refuse(context: Context) -> str:
            self.runs += 1
            await context.elicit("Who?", FORM, key="who")
            raise InvalidParams("Invalid params: not you", {"who": "Ada"})

        @app.tool(structured=False)
        async def wait(context: Context) -> str:
            self.runs += 1
            await context.elicit("Who?", FORM, key="who")
            self.running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return ""

        @app.tool(structured=False, task="optional", detaches=True)
        async def later(context: Context) -> str:
            self.runs += 1
            name = (await context.elicit("Who?", FORM, key="who")).data["name"]
            await context.detach()
            return f"later {name}"

        @app.resource("far://who")
        async def who(context: Context) -> str:
            self.runs += 1
            return str((await context.elicit("Who?", FORM, key="who")).data["name"])

        return app


class Replica:
    """Gateway with the servers, and a client of it."""

    def __init__(self, gateway: Server[Any], provider: RemoteProvider, peer: MemoryPeer) -> None:
        self.gateway, self.provider, self.peer = gateway, provider, peer

    async def call(self, name: str, **more: Any) -> dict[str, Any]:
        return await self.peer.request("tools/call", {"name": name, **more})


@asynccontextmanager
async def replicas(far: Far, revision: str) -> AsyncIterator[list[Replica]]:
    tables, found = MemoryTables(), list[Replica]()
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        for _ in range(2):
            gateway: Server[Any] = Server("gateway", state=MemoryState(tables), state_keys=[KEY])
            provider = RemoteProvider(far.server(), name="far", revision=revision)
            provider.reserve()
            gateway.add_provider(provider)
            peer = await stack.enter_async_context(connect(gateway, revision=LATEST))
            peer.capabilities = EVERYTHING
            found.append(Replica(gateway, provider, peer))
        yield found


def responding(asked: dict[str, Any], *responses: Any) -> dict[str, Any]:
    """Return the parameters with the responses to the requests of a result, in their order."""
    given = dict(zip(asked["result"]["inputRequests"], responses, strict=True))
    return {"requestState": asked["result"]["requestState"], "inputResponses": given}


def text_of(reply: dict[str, Any]) -> str:
    return str(reply["result"]["content"][0]["text"])


@pytest.mark.parametrize("revision", [SESSION, LATEST])
async def test_requests_of_every_kind_reach_the_client_at_the_other_replica(revision: str) -> None:
    far = Far()
    async with replicas(far, revision) as (one, other):
        sampled = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Oslo"}, "unknown": 1}
        responses = {
            "elicitation/create": ADA,
            "sampling/createMessage": sampled,
            "roots/list": {"roots": [{"uri": "file:///home", "name": "Home"}]},
        }
        asked, places = await one.call("survey"), [other, one, other, one, other]
        while asked["result"]["resultType"] == "input_required":
            given = [responses[each["method"]] for each in asked["result"]["inputRequests"].values()]
            asked = await places.pop(0).call("survey", **responding(asked, *given))
        assert text_of(asked) == "Ada Oslo Home accept"
    if revision == SESSION:
        assert far.runs == 1


async def test_an_error_of_the_server_is_the_same_at_the_other_replica() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = await one.call("refuse")
        here = await one.call("refuse", **responding(asked, ADA))
        asked = await one.call("refuse")
        there = await other.call("refuse", **responding(asked, ADA))
        assert there.get("error", there.get("result")) == here.get("error", here.get("result"))
        assert "not you" in str(there)
    assert far.runs == 2


async def test_a_response_that_the_client_cannot_give_is_an_error_of_the_call() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        other.peer.capabilities = {"elicitation": {"form": {}}}
        asked = await one.call("survey")
        given = responding(asked, ADA, {"role": "assistant"}, {"roots": []})
        assert (await other.call("survey", **given))["error"]["code"] == -32021
    assert far.runs == 1


async def test_a_call_that_becomes_a_task_is_a_task_of_the_other_replica() -> None:
    far = Far()
    async with replicas(far, LATEST) as (one, other):
        for replica in (one, other):
            replica.peer.capabilities = {**EVERYTHING, "extensions": {TASKS: {}}}
        asked = await one.call("later")
        task = (await other.call("later", **responding(asked, ADA)))["result"]
        assert task["resultType"] == "task"
        while task["status"] != "completed":
            await asyncio.sleep(0.02)
            task = (await one.peer.request("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert task["result"]["content"][0]["text"] == "later Ada"


async def test_a_read_continues_at_the_other_replica_and_is_sent_again_if_it_is_lost() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        for runs, drops in ((1, False), (3, True)):
            asked = await one.peer.request("resources/read", {"uri": "far://who"})
            if drops:
                await one.provider.stop()
            read = await other.peer.request("resources/read", {"uri": "far://who", **responding(asked, ADA)})
            assert read["result"]["contents"][0]["text"] == "Ada"
            assert far.runs == runs


async def test_a_call_that_is_parked_for_too_long_may_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "PARKED_SECONDS", 0.01)
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = [await one.call("greet") for _ in range(2)]
        while one.provider.parked:
            await asyncio.sleep(0.01)
        for each, replica in zip(asked, (one, other), strict=True):
            error = (await replica.call("greet", **responding(each, ADA)))["error"]
            assert (error["code"], LOST in error["message"]) == (-32603, True)
    assert far.runs == 2


async def test_the_calls_of_a_replica_that_has_lost_its_slot_are_cancelled() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = await one.call("greet")
        replica = one.gateway.endpoint.replica
        replica._pass(SlotExpired(replica.state.slot))
        assert one.provider.parked == 0
        assert LOST in (await other.call("greet", **responding(asked, ADA)))["error"]["message"]
    assert far.runs == 1


async def test_a_request_that_is_cancelled_at_the_other_replica_cancels_the_call() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = await one.call("wait")
        other.peer.start("tools/call", {"name": "wait", **responding(asked, ADA)}, id=99)
        await far.running.wait()
        assert one.provider.parked == 1, "its session is in use"
        other.peer.notify("notifications/cancelled", {"requestId": 99})
        await far.cancelled.wait()
        while one.provider.parked:
            await asyncio.sleep(0.01)


async def test_a_result_that_is_too_large_for_another_replica_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MAX_MESSAGE", 400)
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = await one.call("greet")
        long = {"action": "accept", "content": {"name": "A" * 500}}
        error = (await other.call("greet", **responding(asked, long)))["error"]
        assert (error["code"], "too large" in error["message"]) == (-32603, True)
    assert far.runs == 1


async def test_a_call_that_was_dropped_for_another_client_is_sent_again_from_the_other_replica() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other), connect(one.gateway, revision=LATEST) as stranger:
        stranger.capabilities = EVERYTHING
        asked = await one.call("greet")
        await stranger.request("tools/call", {"name": "greet"})
        assert text_of(await other.call("greet", **responding(asked, ADA))) == "Ada"
    assert far.runs == 3


async def test_a_call_that_continues_at_one_replica_is_not_sent_again_by_another() -> None:
    far = Far()
    async with replicas(far, SESSION) as (one, other):
        asked = await one.call("wait")
        (token,) = one.provider._calls._relays._parked
        slot, opening = one.gateway.endpoint.replica.state.slot, other.gateway.endpoint.replica.connections
        async with opening.open(slot, token), opening.open(slot, token) as second:
            with pytest.raises(ReplicaLost):
                await second.receive()
        assert asked["result"]["resultType"] == "input_required"
    assert far.runs == 1


async def test_a_client_with_many_parked_calls_evicts_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MAX_PARKED", 4)
    far = Far()
    async with replicas(far, LATEST) as (one, other), connect(one.gateway, revision=LATEST) as stranger:
        stranger.capabilities = EVERYTHING
        stranger.dispatcher.client.key = "stranger"
        asked = await one.call("greet")
        for _ in range(6):
            await stranger.request("tools/call", {"name": "greet"})
        assert one.provider.parked == 4
        runs = far.runs
        assert text_of(await other.call("greet", **responding(asked, ADA))) == "Ada"
        assert far.runs == runs + 1, "the server is stateless, and is asked again"


async def test_messages_for_a_parked_call_are_bounded_in_number_and_bytes() -> None:
    sent: list[Any] = []

    class Receiver:
        def log(self, level: str, data: Any, logger: str | None = None) -> None:
            sent.append(data)

    relay = Relay("call", None, lambda: True)
    for number in range(3 * MAX_KEPT):
        relay.log("info", number, None)
    for letter in "abcdef":
        relay.log("info", letter * (MAX_KEPT_BYTES // 3), None)
    relay.log("info", "x" * MAX_KEPT_BYTES, None)
    relay.log("info", "last", None)

    async def nothing(_: Relay) -> None:
        pass

    relay.work = nothing
    relay.begin()
    await relay.result(Receiver())  # type: ignore[arg-type]
    assert sent == ["last"]


async def test_a_flood_of_large_messages_does_not_wait_in_memory_for_the_store() -> None:
    sent: list[int] = []

    class Connection:
        queued = 0

        @property
        def queued_bytes(self) -> int:
            return sum(sent)

        def send(self, message: bytes) -> None:
            sent.append(len(message))

    context = ResumedContext(Connection())  # type: ignore[arg-type]
    for _ in range(10):
        context.report_progress(1, None, "x" * (MAX_KEPT_BYTES // 3))
        context.log("info", "x" * MAX_KEPT_BYTES)
    assert len(sent) == 2
