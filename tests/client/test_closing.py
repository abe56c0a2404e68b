"""Any closing order: other tasks, other orders, in the middle of anything, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from carrel.errors import MCPError
from support.http_server import over_http
from support.servers import SERVERS
from support.servers.demo import LATEST, NOVEMBER, WAYS, make_shelf, reach

SHELF = [sys.executable, str(SERVERS / "demo.py")]
EVERYWHERE = pytest.mark.parametrize(
    ("way", "revision"), [(way, revision) for way in WAYS for revision in (NOVEMBER, LATEST)]
)


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """No task outlives its client."""
    yield
    gc.collect()
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() if "carrel" in task.get_coro().cr_code.co_filename]
    assert left == []


@pytest.fixture(scope="module")
def url() -> Any:
    """A server over HTTP."""
    with over_http(make_shelf()) as origin:
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
            if other._open:
                assert (await other.read("memo://1"))[0].text == "memo 1"


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_may_be_closed_by_another_task_than_opened_it(way: str, url: str) -> None:
    client = Client(targets(url)[way]())
    await asyncio.create_task(client.__aenter__())
    assert (await client.read("memo://1"))[0].text == "memo 1"
    await asyncio.create_task(client.close())
    await client.close()


@EVERYWHERE
async def test_closing_in_the_middle_of_everything_ends_it(way: str, revision: str) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(reach(way, revision))
        watch = client.watch("memo://1")
        await watch.start()
        calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(5)]
        calls += [asyncio.create_task(client.read("memo://1")) for _ in range(5)]
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


async def test_a_program_that_forgets_to_close_leaves_no_process_behind(tmp_path: Path) -> None:
    script = tmp_path / "forgetful.py"
    script.write_text(
        "import asyncio, sys\nfrom carrel import Client\n\n\nasync def main():\n"
        f"    client = Client({SHELF!r})\n    await client.__aenter__()\n"
        "    print((await client.connect()).transport.pid, flush=True)\n    sys.exit(3)\n\n\nasyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 3, done.stderr
    pid = int(done.stdout)
    async with asyncio.timeout(10):
        while is_alive(pid):
            await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
