"""What happens when a server is lost: what is asked again, what never is, and what the caller is told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Server
from carrel.client.retry import Retries
from carrel.errors import (
    ConfigError,
    HTTPStatusError,
    MCPError,
    PeerError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from carrel.transports.client.options import ProcessOptions
from support.client_connection import row_of
from support.http_process import free_port, restart, serving, start, stop
from support.servers.demo import LATEST, NOVEMBER, reach

pytestmark = pytest.mark.slow


QUICK = Retries(first=0.01, longest=0.02)
BOTH = pytest.mark.parametrize("revision", [NOVEMBER, LATEST])


async def kill(client: Client) -> None:
    """Kill the server of a client, and wait until that is known."""
    link = await client.session.connect()
    transport: Any = link.transport
    os.killpg(transport.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await client.session.gone(link)


@BOTH
async def test_a_server_that_has_ended_is_started_again_with_the_next_request(revision: str) -> None:
    async with reach("stdio", revision, retries=QUICK) as client:
        await client.call_tool("touch", {"number": 1})
        await kill(client)
        contents = (await client.read_resource("memo://1")).contents
        assert contents[0].text == "memo 1"  # another process: nothing was touched there
        assert client.revision == revision


@BOTH
async def test_reading_goes_on_in_another_process_and_calling_a_tool_does_not(revision: str) -> None:
    async with reach("stdio", revision, retries=QUICK) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        repeated = asyncio.create_task(client.call_tool("hang", repeatable=True))
        await client.call_tool("add", {"a": 1, "b": 1})
        await kill(client)
        with pytest.raises(TransportError, match="ended"):
            await call
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"
        assert not repeated.done()
        repeated.cancel()
        await asyncio.wait([repeated])


@BOTH
async def test_a_server_over_http_that_was_restarted_gets_a_new_session(revision: str) -> None:
    port = free_port()
    async with serving(port), Client(f"http://127.0.0.1:{port}/mcp", revision=revision, retries=QUICK) as client:
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"
        await restart(port)
        assert (await client.call_tool("add", {"a": 1, "b": 1})).content[0].text == "2"
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"


async def test_a_server_over_http_that_is_away_for_a_while_is_waited_for() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with serving(port), Client(url, retries=Retries(times=2000, first=0.05, longest=0.05)) as client:
        await stop(port)
        reading = asyncio.create_task(client.read_resource("memo://1"))
        await asyncio.sleep(0)
        await start(port)
        assert (await asyncio.wait_for(reading, 60)).contents[0].text == "memo 1"


async def test_a_refused_connection_names_the_address() -> None:
    port = free_port()
    with pytest.raises(TransportError, match=rf"127\.0\.0\.1:{port}"):
        async with Client(f"http://127.0.0.1:{port}/mcp", retries=QUICK):
            pass


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no-such-program"):
        async with Client(["no-such-program", "--stdio"]):
            pass


async def test_a_program_that_ends_at_once_is_quoted() -> None:
    script = "import sys; print('the key is missing', file=sys.stderr); sys.exit(3)"
    with pytest.raises(TransportError, match=r"(?s)status 3.*the key is missing"):
        async with Client([sys.executable, "-c", script]):
            pass


async def test_standard_error_of_a_server_can_be_followed(tmp_path: Path) -> None:
    lines: list[str] = []
    script = tmp_path / "server.py"
    script.write_text(
        "import sys\nfrom carrel import Server\nprint('starting', file=sys.stderr, flush=True)\nServer('s').run()\n"
    )
    async with Client([sys.executable, str(script)], process=ProcessOptions(stderr=lines.append)) as client:
        await client.ping()
    assert "starting" in "".join(lines)


@pytest.mark.parametrize(
    ("operation", "error", "asked_again"),
    [
        ("read_resource", TransportError(), True),
        ("list_tools", TransportError(), True),
        ("call_tool", TransportError(), False),
        ("call_tool", TransportError(delivered=False), True),
        ("update_task", TransportError(), False),
        ("read_resource", RequestTimeout("late"), False),
        ("read_resource", HTTPStatusError(503, "away"), True),
        ("call_tool", HTTPStatusError(503, "away"), True),
        ("call_tool", HTTPStatusError(502, "bad gateway"), False),
        ("read_resource", HTTPStatusError(502, "bad gateway"), True),
        ("read_resource", HTTPStatusError(400, "bad request"), False),
        ("read_resource", HTTPStatusError(401, "who are you"), False),
        ("read_resource", HTTPStatusError(429, "slowly", retry_after=3600), False),
        ("call_tool", SessionExpired(), True),
        ("read_resource", PeerError(-32603, "Internal error"), False),
    ],
)
def test_only_repeatable_requests_are_retried(operation: str, error: MCPError, asked_again: bool) -> None:
    assert (Retries().pause(error, 1, safe=row_of(operation).idempotent) is not None) == asked_again


def test_pauses_grow_up_to_a_bound_are_never_the_same_and_honour_the_server() -> None:
    retries = Retries(times=20, first=1, longest=4)
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (4, 4), (20, 4)):
        pauses = {retries.pause(TransportError(), attempt, safe=True) for _ in range(20)}
        assert len(pauses) > 10
        assert all(pause is not None and longest / 2 <= pause <= longest for pause in pauses)
    assert retries.pause(TransportError(), 21, safe=True) is None
    assert retries.pause(HTTPStatusError(429, "slowly", retry_after=30), 1, safe=True) == 30


def test_calls_declared_repeatable_are_retried() -> None:
    assert Retries().pause(TransportError(), 1, safe=True) is not None


@BOTH
async def test_requests_in_flight_when_a_session_ends_are_still_answered(revision: str) -> None:
    app, began, go = Server("slow"), asyncio.Event(), asyncio.Event()

    @app.tool()
    async def wait() -> str:
        began.set()
        await go.wait()
        return "done"

    async with Client(app, revision=revision, retries=QUICK) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await began.wait()
        before = await client.session.connect()
        before.closed(SessionExpired())
        await client.ping()
        assert await client.session.connect() is not before
        go.set()
        assert (await call).text == "done"
    async with Client(app, revision=revision) as client:
        go.clear()
        began.clear()
        call = asyncio.create_task(client.call_tool("wait"))
        await began.wait()
        (await client.session.connect()).closed(SessionExpired())
        await client.ping()
    with pytest.raises(TransportError, match="closed"):
        await call
