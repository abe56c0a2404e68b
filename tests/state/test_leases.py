"""Leases of slots: what a replica that was paused drops, and what the others do meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from carrel.errors import ServerUnavailable
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.replica import Replica as StateReplica
from support.encoded_state import EncodedState
from support.raw_http import serving
from support.stdio_process import request, text_of

from .test_replicas import Replica, ask, begin, on, until

pytestmark = pytest.mark.asyncio

LEASE = 30.0


class Clock:
    """Clock of a store, and its replicas that are not paused."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def pass_lease(self, paused, awake):
        """Let the lease of one replica expire, which does nothing meanwhile, while the other one renews its own."""
        replica = paused.app.endpoint.replica
        for task in (replica._letters, *replica._reading):
            task.cancel()
        for _ in range(2):
            self.now += 0.6 * LEASE
            await awake.app.endpoint.replica.renew()


@pytest.fixture
def clock():
    return Clock()


@pytest_asyncio.fixture(params=[MemoryState, EncodedState])
async def replicas(request, clock):
    store = MemoryTables(clock=clock)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        pair = [Replica(request.param(store, lease=LEASE)) for _ in range(2)]
        for replica in pair:
            endpoint = replica.app.asgi()
            await endpoint.start()
            replica.site = await stack.enter_async_context(serving(endpoint))
        yield pair


async def test_a_paused_replica_ends_its_streams_and_goes_on_in_another_slot(replicas, clock):
    one, other = replicas
    session = await begin(one)
    stream = await session.get()
    await stream.event()
    call = await session.call("steps", n=1)
    await one.begun.wait()
    slot = one.app.endpoint.replica.state.slot
    await clock.pass_lease(one, other)
    await one.app.endpoint.replica.renew()
    await one.cancelled.wait()
    assert await stream.messages() == []
    assert [message["method"] for message in await call.messages()] == ["notifications/progress"]
    assert one.app.endpoint.replica.state.slot not in (slot, other.app.endpoint.replica.state.slot)
    one.go.set()
    assert text_of(await (await session.call("steps", n=1)).result()) == "done"
    again = await on(other, session).call("steps", n=1)
    event = await again.event()
    assert event.id.startswith(f"{other.app.endpoint.replica.state.slot}.")


async def test_letters_reach_the_new_slot_of_a_replica(replicas, clock):
    one, other = replicas
    await clock.pass_lease(one, other)
    await one.app.endpoint.replica.renew()
    session = await begin(one, {"elicitation": {"form": {}}})
    reply = await session.call("greet")
    question = await reply.message()
    assert question["id"] >> 32 == one.app.endpoint.replica.state.slot
    name = next(iter(question["params"]["requestedSchema"]["properties"]))
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {name: "Ann"}}}
    assert (await on(other, session).post(answer)).status == 202
    assert text_of(await reply.message()) == "Hello Ann"


async def test_what_a_lost_replica_ran_ends_on_the_others(replicas, clock):
    one, other = replicas
    session = await begin(one)
    reply = await session.call("steps", n=2)
    first = await reply.event()
    await one.begun.wait()
    resumed = await on(other, session).get(first.id)
    assert [(await resumed.message())["params"]["progress"] for _ in range(2)] == [1, 2]
    one.begun.clear()
    id = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    await one.begun.wait()
    call = request(3, "tools/call", {"name": "index", "arguments": {}, "task": {}})
    mine = (await (await session.post(call)).result())["result"]["task"]["taskId"]
    waiting = asyncio.create_task(on(other, session).post(request(4, "tasks/result", {"taskId": mine})))
    while mine not in other.app.endpoint.runtime.tasks._remote._waiting:
        await asyncio.sleep(0)
    assert (await ask(other, "tasks/get", taskId=id))["result"]["status"] == "working"
    await clock.pass_lease(one, other)
    assert await resumed.messages() == [], "the stream ends, as no response will come"
    failed = await until(other, id, "failed")
    assert "has stopped" in failed["error"]["message"]
    assert "has stopped" in (await (await waiting).result())["error"]["message"]
    await one.app.endpoint.replica.renew()
    await one.cancelled.wait()
    assert (await ask(one, "tasks/get", taskId=id))["result"]["status"] == "failed"


async def test_a_replica_learns_at_once_that_it_has_lost_its_slot(replicas, clock):
    one, other = replicas
    session = await begin(one)
    stream = await session.get()
    await stream.event()
    slot = one.app.endpoint.replica.state.slot
    for _ in range(2):
        clock.now += 0.6 * LEASE
        await other.app.endpoint.replica.renew()
    assert await stream.messages() == []
    while one.app.endpoint.replica.state.slot == slot:
        await asyncio.sleep(0)


async def test_until_it_has_a_slot_a_replica_refuses_what_needs_one(replicas, monkeypatch):
    one, other = replicas
    session = await begin(one)
    monkeypatch.setattr(one.app.endpoint.replica, "_held_until", 0.0)  # as when its process goes on after a pause
    refused = await session.post(request(1, "ping"))
    assert refused.status == 503
    assert "try again" in (await refused.json())["error"]["message"]
    assert (await one.site.ask("resources/read", uri="memo://1")).status == 200
    assert (await on(other, session).post(request(1, "ping"))).status == 200
    await one.app.endpoint.replica.renew()
    assert (await session.post(request(1, "ping"))).status == 200


async def test_a_store_that_fails_for_longer_than_the_lease_costs_the_slot(clock, monkeypatch):
    replica = StateReplica(MemoryState(MemoryTables(clock=clock), lease=LEASE))
    await replica.start()
    slot, renew = replica.state.slot, replica.state.renew

    async def fail():
        raise ConnectionError("the store does not answer")

    monkeypatch.setattr(replica.state, "renew", fail)
    with pytest.raises(ConnectionError):
        await replica.renew()
    replica.check_slot()
    replica._held_until = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionError):
        await replica.renew()
    with pytest.raises(ServerUnavailable):
        replica.check_slot()
    monkeypatch.setattr(replica.state, "renew", renew)
    await replica.renew()
    replica.check_slot()
    assert replica.state.slot != slot, "others may still answer questions of the slot before"
    await replica.stop()


async def test_a_replica_that_cannot_lose_its_slot_has_no_task_for_it():
    alone, shared = StateReplica(MemoryState()), StateReplica(MemoryState(MemoryTables()))
    before = asyncio.all_tasks()
    await alone.start()
    assert asyncio.all_tasks() == before
    await shared.start()
    reading = {task.get_coro().__name__ for task in asyncio.all_tasks() - before}
    assert reading == {"_read_bus", "_read_mailbox"}
    await shared.stop()
    await alone.stop()
    assert asyncio.all_tasks() == before
