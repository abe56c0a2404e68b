"""A gateway before fifty servers, of which one hangs, one dies, one floods and one lies: the others do not notice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from statistics import median
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.client import throttle
from carrel.client.handlers import Form, Handlers
from carrel.gateway import Gateway
from carrel.host import Host, RemoteProvider, reconnect
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.reconnect import Status
from carrel.transports.client.stdio import StdioTransport
from carrel.wire.client_features import ElicitResult
from support.http_process import free_port, serving, start, stop
from support.http_server import over_http
from support.servers import SERVERS

from .test_hostile_servers import grown, program, short_grace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures(short_grace.__name__)]

GOOD = 46
#: Ways to misbehave, of ``hostile.py``.
BAD = ("mute", "dying", "notes", "liar")
CALLS = 240
#: The call that a function runs for.
CALL: ContextVar[int | None] = ContextVar("call", default=None)


def config(how: str, **others: Any) -> ServerConfig:
    """Return the configuration of a hostile server."""
    return ServerConfig(name=how, command=sys.executable, args=("-I", "-S", str(SERVERS / "hostile.py"), how), **others)


def good(number: int) -> Server:
    app = Server(f"good{number}")

    @app.tool(name=f"echo{number}")
    async def echo(text: str) -> str:
        return text

    return app


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers whose URL is memory://N be servers in this process."""
    usual = HostedServer.new_client

    async def new_client(self: HostedServer, **options: Any) -> Client:
        if self.config.url is None or not self.config.url.startswith("memory://"):
            return await usual(self, **options)
        return Client(good(int(self.config.url[9:])), **options)

    monkeypatch.setattr(HostedServer, "new_client", new_client)
    # A pipe full of notifications is read at once, and all calls under way wait meanwhile; then nothing for seconds.
    monkeypatch.setattr(throttle, "BURST", 200)
    monkeypatch.setattr(throttle, "RATE", 200)
    monkeypatch.setattr(reconnect, "PAUSES", (0.3, 1.0))  # so that the one that dies is started often


@asynccontextmanager
async def gateway(bad: tuple[str, ...]) -> AsyncIterator[tuple[Host, Client]]:
    """Give the host of a gateway before many servers, and a client of the gateway."""
    configs = [ServerConfig(name=f"good{number}", url=f"memory://{number}", transport="http") for number in range(GOOD)]
    hostile = [config(how, start_timeout=2.0 if how == "mute" else None) for how in bad]
    async with Gateway([*configs, *hostile], enter_timeout=60.0) as served, Client(served.app) as client:
        yield served.host, client


async def p95(client: Client) -> int:
    """Return the 95th percentile of the work of calls of the good servers, eight at a time.

    Work is the number of functions that run in the context of the call: in its task, and in the tasks and callbacks
    that come of it. It depends neither on the speed of the machine, nor on what the other servers do meanwhile.
    """
    taken = [0] * CALLS
    numbers = iter(range(CALLS))

    def count(frame: object, event: str, argument: object) -> None:
        number = CALL.get()
        if event == "call" and number is not None:
            taken[number] += 1

    async def call() -> None:
        for number in numbers:
            CALL.set(number)
            result = await client.call_tool(f"echo{number % GOOD}", {"text": "x"})
            assert result.content[0].text == "x"
            CALL.set(None)
            await asyncio.sleep(0.0005)

    sys.setprofile(count)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(call())
    finally:
        sys.setprofile(None)
    return sorted(taken)[len(taken) * 95 // 100]


@pytest.mark.usefixtures("in_memory")
async def test_calls_of_forty_six_servers_take_no_more_work_beside_four_that_misbehave() -> None:
    async with gateway(()) as (_, client):
        alone = [await p95(client) for _ in range(2)]
        before = grown()
        async with gateway(BAD) as (host, beside):
            assert {server.state for name, server in host.servers.items() if name.startswith("good")} == {"ready"}
            assert host.servers["mute"].state in ("failed", "connecting"), "it fails, and is tried again"
            awaited = {"failed", "ready"}
            died_and_came_back = asyncio.Event()

            def observe(status: Status) -> None:
                awaited.discard(status.name)
                if not awaited:
                    died_and_came_back.set()

            provider = host.servers["dying"].provider
            assert provider is not None
            provider.reconnector.observers.append(observe)
            crowded = [await p95(beside) for _ in range(3)]
            async with asyncio.timeout(100):
                await died_and_came_back.wait()
        assert grown() - before < 64
        alone.append(await p95(client))
    assert min(crowded) < 1.2 * median(alone), f"functions, alone and beside them: {alone}, {crowded}"


@pytest.mark.usefixtures("in_memory")
async def test_calls_go_on_while_a_server_says_that_its_lists_have_changed_and_does_not_answer() -> None:
    async with gateway(("stalls",)) as (_, client), asyncio.timeout(100):
        await p95(client)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_end_of_a_server_over_http_is_noticed_without_a_request(revision: str) -> None:
    port = free_port()
    async with serving(port):
        configs = [ServerConfig(name="far", url=f"http://127.0.0.1:{port}/mcp", transport="http")]
        async with Host(configs, revision=revision) as host:
            server = host.servers["far"]
            assert server.state == "ready"
            failed = asyncio.Event()
            assert server.provider is not None
            server.provider.reconnector.observers.append(lambda status: status.name == "failed" and failed.set())
            await stop(port)
            async with asyncio.timeout(60):
                await failed.wait()
            assert f"http://127.0.0.1:{port}/mcp" in str(server.reason)
            back = asyncio.Event()
            server.provider.reconnector.observers.append(lambda status: status.name == "ready" and back.set())
            await start(port)
            async with asyncio.timeout(60):
                await back.wait()


async def test_a_server_that_hangs_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "PAUSES", (0.01, 0.02))
    started = asyncio.Event()
    count = 0

    def transport() -> StdioTransport:
        nonlocal count
        count += 1
        if count == 2:
            started.set()
        return StdioTransport(program("deaf"), grace=0.05)

    provider = RemoteProvider(Client(transport, revision="2025-11-25"), name="deaf", start_timeout=0.7)
    provider.begin(NoEvents())
    try:
        async with asyncio.timeout(60):
            await started.wait()
    finally:
        await provider.stop()


class NoEvents:
    def publish(self, *_: object, **__: object) -> None:
        """Take note of nothing."""


async def answers_to_64_calls(target: str | list[str], name: str) -> None:
    """Call a tool through a gateway 64 times at once; the server answers when all of the calls are there."""
    app = Server("gateway")
    app.add_provider(RemoteProvider(target, name="upstream"))
    async with Client(app) as client, asyncio.timeout(60):
        calls = (client.call_tool(name, {}) for _ in range(64))
        assert {result.content[0].text for result in await asyncio.gather(*calls)} == {"done"}


async def test_64_calls_in_flight_to_one_server_on_stdio_stay_64_in_flight() -> None:
    await answers_to_64_calls(program("gather"), "echo")


async def test_64_calls_in_flight_to_one_server_over_http_stay_64_in_flight() -> None:
    upstream = Server("upstream")
    count = 0
    everyone: asyncio.Event | None = None

    @upstream.tool
    async def gather() -> str:
        nonlocal count, everyone
        everyone = everyone or asyncio.Event()
        count += 1
        if count == 64:
            everyone.set()
        await everyone.wait()
        return "done"

    with over_http(upstream) as origin:
        await answers_to_64_calls(f"{origin}/mcp", "gather")


async def test_a_client_of_a_gateway_that_is_slow_to_answer_does_not_stop_others() -> None:
    """One call waits for an answer of its client; the calls of another client to the same server go on."""
    upstream = Server("upstream")

    @upstream.tool
    async def ask(context: Context) -> str:
        answer = await context.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(answer.action)

    @upstream.tool
    async def echo() -> str:
        return "done"

    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(form: Form) -> ElicitResult:
        asked.set()
        await go.wait()
        return ElicitResult(action="decline")

    app = Server("gateway")
    app.add_provider(RemoteProvider(upstream, name="upstream"))
    async with Client(app, handlers=Handlers(elicit_form=slow)) as first, Client(app) as second, asyncio.timeout(60):
        asking = asyncio.create_task(first.call_tool("ask"))
        await asked.wait()
        for _ in range(100):
            assert (await second.call_tool("echo")).content[0].text == "done"
        assert not asking.done()
        go.set()
        assert (await asking).content[0].text == "decline"
