"""Watches that replicas share: one replica watches for all, and another one takes over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from carrel import Client, Server
from carrel.catalog.provider import Change, Provider
from carrel.state.memory import MemoryState, MemoryTables
from carrel.wire.resources import ReadResourceResult, TextResourceContents
from support.encoded_state import EncodedState

pytestmark = pytest.mark.asyncio

TIMEOUT = 60.0


class Measured(Provider):
    """A provider whose changes the test reports, which records what happens to it."""

    prefixes = ("measured://",)
    name = "measured"
    shares_watch = True

    def __init__(self):
        self.watches = 0
        self.interest = None
        self.reported = asyncio.Queue()
        self.dropped = []

    async def read_resource(self, uri, request):
        return ReadResourceResult(contents=[TextResourceContents(uri, "text")])

    async def watch(self, interest):
        self.watches += 1
        self.interest = interest
        try:
            yield ()
            while True:
                yield [Change("changed", await self.reported.get())]
        finally:
            self.watches -= 1

    def outdated(self, uris):
        self.dropped += uris


class Replica:
    """A server with the provider, and a client of it."""

    def __init__(self, state):
        self.state = state
        self.provider = Measured()
        self.app = Server("replica", state=state, state_keys=(bytes(32),))
        self.app.add_provider(self.provider)
        self.running = AsyncExitStack()

    async def start(self):
        self.client = await self.running.enter_async_context(Client(self.app))

    async def watch(self, *uris):
        return await self.running.enter_async_context(self.client.watch(*uris))


@pytest.fixture
def clock():
    return [0.0]


@pytest_asyncio.fixture(params=[MemoryState, EncodedState])
async def replicas(request, clock):
    tables = MemoryTables(clock=lambda: clock[0])
    async with asyncio.timeout(TIMEOUT):
        trio = [Replica(request.param(tables)) for _ in range(3)]
        for replica in trio:
            await replica.start()
        yield trio
        for replica in trio:
            await replica.running.aclose()


async def until(check):
    while not check():
        await asyncio.sleep(0.005)


def watching(replicas):
    return [replica for replica in replicas if replica.provider.watches]


async def test_one_replica_watches_and_clients_of_all_are_notified_once(replicas):
    uris = ["measured://0", "measured://1", "measured://2"]
    watches = [await replica.watch(uri) for replica, uri in zip(replicas, uris, strict=True)]
    (holder,) = watching(replicas)
    await until(lambda: set(holder.provider.interest.uris) == set(uris))
    for watch, uri in zip(watches, uris, strict=True):
        holder.provider.reported.put_nowait(uri)
        assert (await anext(watch)).uri == uri
    others = [replica for replica in replicas if replica is not holder]
    assert [replica.provider.dropped for replica in others] == [uris, uris]
    assert holder.provider.dropped == []


async def test_a_subscription_that_ends_is_no_interest_of_the_holder_any_more(replicas):
    (holder,) = watching(replicas)
    other = next(replica for replica in replicas if replica is not holder)
    async with other.client.watch("measured://1"):
        await until(lambda: set(holder.provider.interest.uris) == {"measured://1"})
    await until(lambda: not holder.provider.interest.uris)


async def test_another_replica_takes_over_and_clients_are_told_to_look_again(replicas):
    (holder,) = watching(replicas)
    others = [replica for replica in replicas if replica is not holder]
    watches = [await replica.watch("measured://1") for replica in others]
    await holder.running.aclose()
    for watch in watches:  # the change may have been missed
        assert (await anext(watch)).uri == "measured://1"
    (successor,) = watching(replicas)
    await until(lambda: set(successor.provider.interest.uris) == {"measured://1"})
    successor.provider.reported.put_nowait("measured://1")
    for watch in watches:
        assert (await anext(watch)).uri == "measured://1"


async def test_a_replica_that_hangs_loses_its_watch_and_ends_it_when_it_goes_on(replicas, clock):
    (holder,) = watching(replicas)
    others = [replica for replica in replicas if replica is not holder]
    watch = await others[0].watch("measured://1")
    clock[0] += 60.0  # its lock has expired
    for replica in others:
        shared = replica.app.endpoint.watches._shared["measured"]
        shared.retry()
    assert (await anext(watch)).uri == "measured://1"
    holder.app.endpoint.watches._shared["measured"].retry()
    await until(lambda: not holder.provider.watches)
    assert len(watching(replicas)) == 1


async def test_changes_of_this_machine_are_watched_once_on_each_machine():
    tables = MemoryTables()

    class State(MemoryState):
        on_one_machine = False

        def __init__(self, machine):
            super().__init__(tables)
            self.machine = machine

    async with asyncio.timeout(TIMEOUT):
        replicas = [Replica(State(machine)) for machine in ("a", "a", "b", "", "")]
        for replica in replicas:
            replica.provider.changes = "machine"
        async with AsyncExitStack() as stack:
            for replica in replicas:
                await replica.start()
                stack.push_async_callback(replica.running.aclose)
            for replica in (0, 2, 3, 4):
                await until(lambda replica=replica: replicas[replica].provider.watches)
            await until(lambda: all(replica.app.endpoint.watches.forming == set() for replica in replicas))
            assert [replica.provider.watches for replica in replicas] == [1, 0, 1, 1, 1]
