"""Any closing order: other tasks, other orders, in the middle of anything, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import carrel
from carrel import Client
from carrel.errors import MCPError
from support.fixtures import quick_collections  # noqa: F401
from support.http_requests import request as http_request
from support.http_server import over_http
from support.servers import SERVERS
from support.servers.demo import LATEST, NOVEMBER, WAYS, make_shelf, reach

pytestmark = pytest.mark.slow


SOURCE = str(Path(carrel.__file__).parent)
SHELF = [sys.executable, str(SERVERS / "demo.py")]
EVERYWHERE = pytest.mark.parametrize(
    ("way", "revision"), [(way, revision) for way in WAYS for revision in (NOVEMBER, LATEST)]
)


def tasks_of_carrel() -> list[str]:
    """Return the unfinished tasks of this event loop that run code of the library."""
    return [repr(task) for task in asyncio.all_tasks() if f"{SOURCE}{os.sep}" in task.get_coro().cr_code.co_filename]


def children() -> set[int]:
    """Return the ids of the child processes of this process, also of those that have ended and were not waited for."""
    return {int(id) for path in Path("/proc/self/task").glob("*/children") for id in path.read_text().split()}


def connections() -> set[str]:
    """Return the sockets and pipes that this process has open."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(path))
    return {name for name in found if name.startswith(("socket:", "pipe:"))}


@pytest.fixture(autouse=True)
async def nothing_is_left(url: str) -> AsyncIterator[None]:
    """No task, process, socket or pipe outlives its client."""
    processes, sockets = children(), connections()
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert tasks_of_carrel() == []
    assert children() <= processes
    with contextlib.suppress(TimeoutError):  # the server over HTTP closes its ends of connections by itself, soon
        async with asyncio.timeout(60):
            while not connections() <= sockets:
                await asyncio.sleep(0.01)
    assert connections() <= sockets


@pytest.fixture(scope="module")
def url() -> Any:
    """A server over HTTP."""
    with over_http(make_shelf()) as origin:
        http_request(
            f"{origin}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {}
        )  # it runs when this is answered
        yield f"{origin}/mcp"


def targets(url: str) -> dict[str, Callable[[], Any]]:
    """What a client can be made for, by the way to it."""
    return {"memory": make_shelf, "stdio": lambda: SHELF, "http": lambda: url}


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
async def test_clients_end_in_any_order(order: list[int], url: str) -> None:
    clients = [Client(make()) for make in targets(url).values()]
    for client in clients:
        await client.__aenter__()
    for position in order:
        await clients[position].close()
        for other in clients:
            if other.state.status != "closed":
                assert (await other.read_resource("memo://1")).contents[0].text == "memo 1"


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_may_be_closed_by_another_task_than_opened_it(way: str, url: str) -> None:
    client = Client(targets(url)[way]())
    await asyncio.create_task(client.__aenter__())
    assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"
    await asyncio.create_task(client.close())
    await client.close()


@EVERYWHERE
async def test_closing_in_the_middle_of_everything_ends_it(way: str, revision: str) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(reach(way, revision))
        watch = client.watch("memo://1")
        await watch.start()
        calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(5)]
        calls += [asyncio.create_task(client.read_resource("memo://1")) for _ in range(5)]
        await client.ping()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, MCPError) for outcome in outcomes[:5])


@pytest.mark.parametrize("way", WAYS)
async def test_two_tasks_may_close_at_the_same_time(way: str, url: str) -> None:
    client = Client(targets(url)[way]())
    await client.__aenter__()
    await asyncio.gather(client.close(), client.close(), client.close())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("turns", [0, 1, 3, 10, 30])
async def test_connecting_may_be_cancelled_at_any_time(way: str, turns: int, url: str) -> None:
    client = Client(targets(url)[way]())
    opening = asyncio.create_task(client.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    await client.close()


@pytest.mark.parametrize("way", WAYS)
async def test_an_error_within_the_client_comes_through_as_it_is(way: str, url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Client(targets(url)[way]()) as client, client.watch("memo://1"):
            _ = 1 / 0


LINGERING = """
import signal, time
from carrel import Server

signal.signal(signal.SIGTERM, signal.SIG_IGN)
Server("lingering").run()
time.sleep(600)
"""


async def test_a_program_that_forgets_to_close_leaves_no_process_behind(tmp_path: Path) -> None:
    """Not even a server that ends neither with its input nor when it is told to."""
    server, script = tmp_path / "lingering.py", tmp_path / "forgetful.py"
    server.write_text(LINGERING)
    script.write_text(
        "import asyncio, sys\nfrom carrel import Client\n\n\nasync def main():\n"
        f"    client = Client({[sys.executable, str(server)]!r})\n    await client.__aenter__()\n"
        "    print(client.session.connection.transport.pid, flush=True)\n    sys.exit(3)\n\n\nasyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3
    pid = int(done.stdout)
    try:
        async with asyncio.timeout(60):
            while is_alive(pid):
                await asyncio.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
