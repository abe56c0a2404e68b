"""Hostile servers: what a client keeps and does for a server that floods, lies, is silent or never ends."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel import Client
from carrel.client import incoming_requests, results, throttle
from carrel.client.retry import Retries
from carrel.errors import InvalidMessage, MCPError, RequestTimeout, TransportError
from carrel.transports.client import process_pipes
from carrel.transports.client.options import ProcessOptions
from carrel.transports.client.stdio import StdioTransport
from support.servers import SERVERS

pytestmark = pytest.mark.slow


def program(how: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(SERVERS / "hostile.py"), how]


@asynccontextmanager
async def hostile(how: str, **options: Any) -> AsyncIterator[Client]:
    """Give a client of a hostile server."""
    async with Client(program(how), **{"timeout": 60.0, "revision": "2025-11-25", **options}) as client:
        yield client


def grown() -> int:
    """Return the peak of this process's memory, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """End servers soon that do not end by themselves: most of them flood until then."""
    monkeypatch.setitem(StdioTransport.__init__.__kwdefaults__, "grace", 0.2)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached soon."""
    monkeypatch.setattr(throttle, "BURST", 500)
    monkeypatch.setattr(incoming_requests, "MAX_UNSENT_ANSWERS", 50)
    monkeypatch.setattr(process_pipes, "HIGH_WATER", 4096)


@pytest.mark.parametrize("how", ["pings", "unknown"])
@pytest.mark.usefixtures("quick")
async def test_a_server_that_asks_without_reading_the_answers_is_left(how: str) -> None:
    before = grown()
    async with hostile(how) as client:
        link = client.session.connection
        assert link is not None
        async with asyncio.timeout(60):
            await client.session.gone(link)
        assert "MAX_UNSENT_ANSWERS" in str(link.error)
        assert "more than 50" in str(link.error)
    assert grown() - before < 50


def said(caplog: pytest.LogCaptureFixture) -> int:
    """Return how often it was said that a server is throttled."""
    return sum("(BURST, RATE)" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("how", ["notes", "strangers"])
async def test_a_flood_is_read_slowly_and_the_server_still_answers(
    how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(throttle, "BURST", 20)  # less than comes in one read
    monkeypatch.setattr(throttle, "RATE", 5_000)
    monkeypatch.setattr(process_pipes, "HIGH_WATER", 4096)  # so that what is read before an answer is little
    before = grown()
    with caplog.at_level(logging.WARNING, "carrel"):
        async with hostile(how) as client:
            calls = 0
            async with asyncio.timeout(60):
                while calls < 3 or not said(caplog):  # a slow machine answers before the flood begins
                    assert (await client.call_tool("echo")).content[0].text == "done"
                    calls += 1
    assert grown() - before < 50
    assert said(caplog) == 1, "it is said once"


async def test_a_flood_leaves_time_to_others_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "BURST", 500)
    taken, take = 0, throttle.Throttle.take

    def counted(self: throttle.Throttle, count: int = 1) -> float | None:
        nonlocal taken
        taken += count
        return take(self, count)

    monkeypatch.setattr(throttle.Throttle, "take", counted)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with hostile("notes"), hostile("usual") as other, asyncio.timeout(60):
        for _ in range(200):
            await other.call_tool("echo")
        most = 500 + (loop.time() - begun) * throttle.RATE
        assert taken < most + 10_000, "the rate, and what was read at once before a pause"


async def test_callbacks_for_log_messages_are_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dropped = asyncio.Event()
    running = 0

    async def slow(params: Any) -> None:
        nonlocal running
        running += 1
        await dropped.wait()

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "MAX_CALLBACKS" in record.getMessage():
                dropped.set()

    handler = Noted()
    logging.getLogger("carrel.client").addHandler(handler)
    try:
        async with hostile("notes", log=slow), asyncio.timeout(60):
            await dropped.wait()
            assert running <= 1001
    finally:
        logging.getLogger("carrel.client").removeHandler(handler)


async def test_requests_fail_when_too_much_waits_for_a_server_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_pipes, "HIGH_WATER", 64 * 1024)
    monkeypatch.setattr("carrel.transports.client.process_pipes.MAX_UNREAD", 1024 * 1024)
    async with hostile("deaf", retries=Retries(times=0)) as client:
        big = {"data": "x" * 600_000}
        failures = [await fails(client.call_tool("echo", big, timeout=0.2)) for _ in range(7)]
    assert isinstance(failures[0], RequestTimeout)
    assert isinstance(failures[-1], TransportError)
    assert "does not read its input" in str(failures[-1])
    assert "MAX_UNREAD" in str(failures[-1])


async def fails(work: Any) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await work
    return caught.value


async def test_a_server_that_never_answers_takes_no_longer_than_the_time_limits() -> None:
    with pytest.raises(RequestTimeout, match=r"no answer to initialize within 0\.2 seconds"):
        async with asyncio.timeout(60):  # the program has 2 seconds to end by itself, and 2 more after SIGTERM
            await Client(program("mute"), timeout=0.2, patience=0.1).__aenter__()


async def test_a_list_without_end_is_an_error_that_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hostile("endless") as client:
        for name, most in (("MAX_PAGES", 3), ("MAX_ENTRIES", 250), ("MAX_LIST_BYTES", 10_000)):
            with monkeypatch.context() as patch:
                patch.setattr(results, name, most)
                error = await fails(client.list_tools())
            assert isinstance(error, InvalidMessage)
            assert f"more than {most} " in str(error)
            assert f"({name})" in str(error)


async def test_a_message_without_end_ends_the_connection_and_names_the_limit() -> None:
    pipes = StdioTransport(program("unending"), max_message=1024 * 1024)
    before = grown()
    async with Client(lambda: pipes, timeout=60.0, revision="2025-11-25") as client:
        error = await fails(client.call_tool("echo"))
    assert "has sent a message of more than 1048576 bytes (max_message)" in str(error)
    assert grown() - before < 50


async def test_json_that_is_nested_deeply_is_no_answer() -> None:
    async with hostile("nested") as client:
        assert isinstance(await fails(client.call_tool("echo", timeout=1.0)), MCPError)
        assert [tool.name for tool in await client.list_tools()] == ["echo"], "the connection goes on"


async def test_a_server_that_dies_in_the_middle_of_an_answer_is_named_with_its_status() -> None:
    async with hostile("half") as client:
        assert "has ended with exit status 3" in str(await fails(client.call_tool("echo")))
        assert [tool.name for tool in await client.list_tools()] == ["echo"], "it is started again"


async def test_a_server_that_closes_its_output_and_lives_is_noticed() -> None:
    async with hostile("shut") as client:
        error = await fails(client.call_tool("echo", timeout=3.0))
        assert "has closed its standard output" in str(error) or isinstance(error, RequestTimeout)
        link = client.session.connection
        assert link is not None
        link.closed(TransportError("it is silent"))
        assert [tool.name for tool in await client.list_tools()] == ["echo"], "it is started again"


async def test_a_flood_on_standard_error_is_read_slowly_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pipes, "ERROR_BURST", 100_000)
    monkeypatch.setattr(process_pipes, "ERROR_RATE", 1_000_000)
    seen = 0

    def count(line: str) -> None:
        nonlocal seen
        seen += len(line) + 1

    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with hostile("errors", process=ProcessOptions(stderr=count)) as client:
        for _ in range(100):
            await client.call_tool("echo")
        transport = client.session.connection.transport  # type: ignore[union-attr]
        assert isinstance(transport, StdioTransport)
        assert len(transport.errors) <= 64 * 1024
        assert seen < 1_000_000 + (loop.time() - begun) * 1_000_000
