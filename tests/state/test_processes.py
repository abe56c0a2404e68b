"""Two server processes on one store, and a client whose requests reach either of them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio

from carrel.state.memory import MemoryTables
from support.forked_command import launch_script
from support.http_process import free_port, reachable
from support.raw_http import Session, Site
from support.servers import SERVERS
from support.socket_store import StoreServer
from support.stdio_process import initialize, note, request, text_of

from .test_leases import LEASE, Clock
from .test_replicas import ask, on, until

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TIMEOUT = 200.0
CAPABILITIES = {"elicitation": {"form": {}}}


class Process:
    """One replica: its process, its site, and its slot."""

    def __init__(self, process, site):
        self.process = process
        self.site = site
        self.slot = -1

    async def use(self, tool, **arguments):
        """Call a tool without a session."""
        return text_of(await (await self.site.call(tool, **arguments)).result())


@asynccontextmanager
async def running(path):
    port = free_port()
    with open(os.devnull, "r+b") as nothing:
        process = launch_script(SERVERS / "replica.py", [str(port), str(path)], [nothing.fileno()] * 3)
    site = Site(port)
    try:
        yield Process(process, site)
    finally:
        site.close()
        process.send_signal(signal.SIGCONT)
        process.kill()
        await asyncio.to_thread(process.wait)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryTables(clock=clock)


@pytest_asyncio.fixture
async def replicas(tmp_path, store):
    path = tmp_path / "store"
    async with asyncio.timeout(TIMEOUT), StoreServer(path, store, lease=LEASE), AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(running(path)) for _ in range(2)]
        for replica in pair:
            await reachable(replica.site.port)
            replica.slot = int(await replica.use("slot"))
        yield pair


async def begin(replica):
    message = initialize("2025-11-25")
    message["params"]["capabilities"] = CAPABILITIES
    reply = await replica.site.post(message)
    session = Session(replica.site, reply.headers["mcp-session-id"], "2025-11-25")
    assert (await session.post(note("notifications/initialized"))).status == 202
    return session


def lose(replica, other, store, clock):
    """Let the lease of one replica expire, as the other one renews its own."""
    for _ in range(2):
        clock.now += 0.6 * LEASE
        store.renew(other.slot, LEASE)
    assert not store.has_replica(replica.slot)


async def test_processes_that_share_a_store_are_one_server(replicas):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    read = await (await there.post(request(1, "resources/read", {"uri": "memo://1"}))).json()
    assert read["result"]["contents"][0]["text"] == "text"

    await session.subscribe("memo://1")
    standing, listening = await there.get(), await other.site.listen("memo://1")
    opened = await standing.event()
    for uri in ("memo://2", "memo://1"):
        await one.use("change", uri=uri)
    assert (await standing.message())["params"] == {"uri": "memo://1"}
    assert (await listening.message())["params"]["uri"] == "memo://1"
    moved = await session.get(opened.id)
    assert (await moved.message())["params"] == {"uri": "memo://1"}

    asking = await session.call("greet")
    question = await asking.message()
    assert question["id"] >> 32 == one.slot
    (name,) = question["params"]["requestedSchema"]["properties"]
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {name: "Ann"}}}
    assert (await there.post(answer)).status == 202
    assert text_of(await asking.message()) == "Hello Ann"

    call = await session.call("steps", n=2)
    first = await call.event()
    assert first.id.startswith(f"{one.slot}.")
    call.client.close()
    resumed = await there.get(first.id)
    assert [(await resumed.message())["params"]["progress"] for _ in range(2)] == [1, 2]
    id = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    assert (await ask(other, "tasks/get", taskId=id))["result"]["status"] == "working"
    await one.use("release")
    assert (await resumed.message())["params"]["progress"] == 3
    assert text_of(await resumed.message()) == "done"
    done = await until(other, id, "completed")
    assert done["result"]["content"][0]["text"] == "indexed"


async def test_when_a_process_is_killed_the_other_answers_what_can_be_answered(replicas, store, clock):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    await session.subscribe("memo://1")
    finished, call = await session.call("steps", n=0, id=8), await session.call("steps", n=2, id=9)
    over, first = await finished.event(), await call.event()
    ended = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    await one.use("release")
    assert text_of((await finished.messages())[-1]) == "done"
    await until(one, ended, "completed")
    asking = await session.call("greet")
    question = await asking.message()
    standing = await session.get()
    opened = await standing.event()
    one.process.kill()
    await asyncio.to_thread(one.process.wait)

    replayed = await there.get(over.id)
    assert text_of((await replayed.messages())[-1]) == "done", "a response that is in the log"
    assert (await ask(other, "tasks/get", taskId=ended))["result"]["status"] == "completed"
    moved = await there.get(opened.id)
    assert (await moved.event()).data == ""
    await other.use("change", uri="memo://1")
    assert (await moved.message())["params"] == {"uri": "memo://1"}

    lose(one, other, store, clock)
    cut = await there.get(first.id)
    assert [message["params"]["progress"] for message in await cut.messages() if "params" in message] == [1, 2, 3]
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
    assert (await there.post(answer)).status == 202
    assert (await there.post(request(10, "ping"))).status == 200
    assert (await there.delete()).status == 204


async def test_what_runs_in_a_process_that_is_killed_is_over_on_the_other(replicas, store, clock):
    one, other = replicas
    session = await begin(one)
    call = await session.call("steps", n=1)
    first = await call.event()
    following = await on(other, session).get(first.id)
    assert (await following.message())["params"]["progress"] == 1
    id = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    one.process.kill()
    await asyncio.to_thread(one.process.wait)
    lose(one, other, store, clock)
    assert await following.messages() == [], "the stream ends, as no response will come"
    failed = (await ask(other, "tasks/get", taskId=id))["result"]
    assert failed["status"] == "failed"
    assert "has stopped" in failed["error"]["message"]


async def test_a_process_that_was_paused_ends_its_streams_and_goes_on_in_another_slot(replicas, store, clock):
    one, other = replicas
    session = await begin(one)
    standing = await session.get()
    call = await session.call("steps", n=1)
    assert (await call.message())["params"]["progress"] == 1
    assert (await standing.event()).data == ""
    one.process.send_signal(signal.SIGSTOP)
    lose(one, other, store, clock)
    one.process.send_signal(signal.SIGCONT)
    assert await call.messages() == []
    assert await standing.messages() == []
    while (reply := await session.post(request(2, "ping"))).status == 503:
        assert "try again" in (await reply.json())["error"]["message"]
    assert reply.status == 200
    assert int(await one.use("slot")) not in (one.slot, other.slot)
