"""Budgets of the client that can be counted: what it loads, how long the way of one call is, and what is left of it.

Times are in ``benchmarks/``; these numbers are the same on every machine.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

import carrel
from carrel import Client
from support.covering import covering
from support.servers import SERVERS
from support.servers.many_resources import CROWD, reach

pytestmark = pytest.mark.slow


SOURCE = str(Path(carrel.__file__).parent)
NOVEMBER, LATEST = "2025-11-25", "2026-07-28"
ERAS = (NOVEMBER, LATEST)
WAYS = ("memory", "stdio", "http")

#: What a conversation on stdio does not need: HTTP, authorization, schemas, caches, what is only for some calls.
UNWANTED = {
    *("aiohttp", "yarl", "multidict", "uvicorn", "httptools", "uvloop", "http", "h11", "starlette", "anyio"),
    *("jsonschema_rs", "pydantic", "pydantic_core", "watchfiles", "pathspec", "puremagic", "cryptography", "joserfc"),
    *("email", "html", "xml", "sqlite3", "ctypes", "multiprocessing", "unittest", "json", "hashlib", "secrets"),
    *("argparse", "keyring", "tempfile", "webbrowser", "urllib.request", "importlib.metadata"),
    *("carrel.cli", "carrel.sources", "carrel.host", "carrel.security", "carrel.protocol.json_schema"),
    *("carrel.protocol.sse", "carrel.protocol.extensions.frontmatter", "carrel.client.cache", "carrel.client.tasks"),
    *(
        "carrel.client.skills",
        "carrel.client.web_resources",
        "carrel.transports.client.http",
        "carrel.transports.client.http_sse",
    ),
    *(
        "carrel.transports.memory",
        "carrel.transports.client.http_session",
        "carrel.transports.server.stdio",
        "carrel.transports.server.http",
    ),
}

CONVERSATION = """
import asyncio, sys
before = set(sys.modules)
from carrel import Client
async def main():
    async with Client([sys.executable, sys.argv[1]]) as client:
        await client.read_resource("memo://1")
        await client.call_tool("add", {"a": 1, "b": 2})
        assert [each.name async for each in client.list_tools()]
asyncio.run(main())
print(*sorted(set(sys.modules) - before))
"""


def test_a_conversation_on_stdio_loads_no_http_no_authorization_and_no_schemas() -> None:
    crowd = str(SERVERS / "many_resources.py")
    command = [sys.executable, "-c", CONVERSATION, crowd]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())
    assert {name for name in loaded if name in UNWANTED or name.partition(".")[0] in UNWANTED} == set()
    assert len(loaded) <= 245, f"{len(loaded)} modules"
    assert len([name for name in loaded if name.startswith("carrel")]) <= 88


# The way of one call


class Way:
    """What the client does for a call: Carrel's frames and codecs, without those of the server in the same process."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.codecs: Counter[str] = Counter()
        self._server: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if self._server is not None:
            if event == "return" and frame is self._server:
                self._server = None
        elif event == "call" and code.co_filename.startswith(SOURCE):
            name = code.co_filename[len(SOURCE) + 1 :]
            if name == "transports/server/dispatcher.py":
                self._server = frame
            else:
                self.frames.append(f"{name}:{code.co_name}")
        elif event == "c_call":
            owner = getattr(function, "__self__", None)
            if isinstance(owner, msgspec.json.Decoder):
                self.codecs["decode"] += 1
            elif isinstance(owner, msgspec.json.Encoder):
                self.codecs["encode"] += 1
            elif (getattr(function, "__module__", None) or "").startswith("msgspec"):
                self.codecs[function.__name__] += 1


async def watched(call: Callable[[], Awaitable[Any]]) -> Way:
    for _ in range(2):  # what is made when it is first used has been made
        await call()
    way = Way()
    before = sys.getprofile()
    gc.disable()  # what it would finalize is not of this call
    sys.setprofile(way)
    try:
        await call()
    finally:
        sys.setprofile(before)
        gc.enable()
    return way


async def read_all(client: Client) -> None:
    assert len(await client.list_resources()) == CROWD


CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "read": lambda client: client.read_resource("memo://1"),
    "call": lambda client: client.call_tool("add", {"a": 1, "b": 2}),
    "list": read_all,
}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("call", "frames", "codecs"),
    [
        ("read", 12, {"encode": 1, "decode": 2, "convert": 1}),
        ("call", 13, {"encode": 2, "decode": 2}),
        ("list", CROWD + 18, {"encode": 1, "decode": 1}),  # the iterator is resumed for each resource
    ],
)
async def test_the_way_of_a_call_is_short(revision: str, call: str, frames: int, codecs: dict[str, int]) -> None:
    async with reach("memory", revision) as client:
        way = await watched(lambda: CALLS[call](client))
    assert len(way.frames) <= frames, way.frames
    assert not way.codecs - Counter(codecs), way.codecs


@pytest.mark.parametrize(("way", "revision"), covering(WAYS, ERAS))
async def test_an_answer_is_decoded_once_for_its_envelope_and_once_for_its_result(way: str, revision: str) -> None:
    """Over HTTP the transport, too, has to know whether a body is the answer: the receiver tells it."""
    async with reach(way, revision) as client:
        read = await watched(lambda: client.read_resource("memo://1"))
        called = await watched(lambda: client.call_tool("add", {"a": 1, "b": 2}))
        streamed = await watched(lambda: client.call_tool("add", {"a": 1, "b": 2}, progress=lambda *_: None))
    assert [each.codecs["decode"] for each in (read, called, streamed)] == [2, 2, 2]
    assert read.codecs["encode"] == 1


class Tasks:
    """Counts the tasks that are made in a loop."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        self.made.append(getattr(work, "__qualname__", str(work)))
        return asyncio.Task(work, loop=loop, **options)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(("way", "most"), [("memory", 0), ("stdio", 0), ("http", 1)])
async def test_a_call_makes_no_task_and_over_http_one(way: str, most: int, revision: str) -> None:
    async with reach(way, revision) as client:
        for _ in range(2):
            await client.call_tool("add", {"a": 1, "b": 2})
        await quiet(lambda: len(asyncio.all_tasks()))
        loop, tasks = asyncio.get_running_loop(), Tasks()
        loop.set_task_factory(tasks)
        try:
            for _ in range(10):
                await client.read_resource("memo://1")
                await client.call_tool("add", {"a": 1, "b": 2})
        finally:
            loop.set_task_factory(None)
    ours = [name for name in tasks.made if not name.startswith("ClientRequest.")]  # aiohttp writes in a task
    assert len(ours) <= 20 * most, Counter(ours)


# What is left of calls


async def quiet(measure: Callable[[], int]) -> int:
    """The value of something once it has not changed for a while."""
    same, last = 0, measure()
    async with asyncio.timeout(60):
        while same < 20:
            await asyncio.sleep(0.001)
            now = measure()
            same = same + 1 if now == last else 0
            last = now
    return last


def leftovers() -> dict[str, int]:
    """What is there of what calls are made of."""
    gc.collect()
    kinds = Counter(type(each).__name__ for each in gc.get_objects())
    loop: Any = asyncio.get_running_loop()
    return {
        "tasks": len(asyncio.all_tasks()),
        "futures": kinds["Future"],
        "timers": len([handle for handle in loop._scheduled if not handle.cancelled()]),
        "connections": kinds["ClientResponse"],
    }


async def settle(before: dict[str, int]) -> dict[str, int]:
    """What there is more of than before, once timers that are due soon have had their turn."""
    end = asyncio.get_running_loop().time() + 60  # no asyncio.timeout, which is a timer
    while more := {kind: count for kind, count in leftovers().items() if count > before[kind]}:
        if asyncio.get_running_loop().time() > end:
            break
        await asyncio.sleep(0.01)
    return more


@pytest.mark.parametrize(("way", "revision"), covering(WAYS, ERAS))
async def test_fifty_cancelled_calls_leave_nothing_behind(
    way: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A session over HTTP has one timer for its unfinished responses, which ends at its next turn without any.
    monkeypatch.setattr("carrel.transports.client.http_session.LOOK_AFTER", 0.01)
    async with reach(way, revision) as client:

        async def hanging() -> int:
            return int((await client.call_tool("count_hanging")).content[0].text)

        async def wait_for(number: int) -> None:
            async with asyncio.timeout(60):
                while await hanging() != number:
                    await asyncio.sleep(0.005)

        await hanging()
        await quiet(lambda: len(asyncio.all_tasks()))
        before = leftovers()
        for _ in range(2):
            calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(50)]
            await wait_for(50)
            for call in calls:
                call.cancel()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(end) for end in ends} == {asyncio.CancelledError}
            assert client.session.connection is not None
            assert client.session.connection.connection.waiting == {}
            await wait_for(0)
        del calls, call, ends
        await quiet(lambda: len(asyncio.all_tasks()))
        assert await settle(before) == {}


@pytest.mark.parametrize("revision", [pytest.param(NOVEMBER, marks=pytest.mark.exhaustive), LATEST])
async def test_memory_is_flat_over_three_thousand_calls(revision: str) -> None:
    async with reach("memory", revision) as client:

        async def call(times: int) -> None:
            for _ in range(times // 2):
                await client.read_resource("memo://1")
                await client.call_tool("add", {"a": 1, "b": 2})

        await call(500)
        tracemalloc.start()
        try:
            await call(500)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            await call(3_000)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 4096, f"{after - before} bytes more"


# A thousand


@pytest.mark.parametrize(("way", "revision"), covering(["stdio", "http"], ERAS))
async def test_a_thousand_calls_in_flight_get_their_own_answers(way: str, revision: str) -> None:
    async with reach(way, revision) as client:
        async with asyncio.timeout(60):
            results = await asyncio.gather(*(client.call_tool("later", {"number": each}) for each in range(CROWD)))
        assert [result.content[0].text for result in results] == [str(each) for each in range(CROWD)]
        assert client.session.connection is not None
        assert client.session.connection.connection.waiting == {}


@pytest.mark.parametrize(("way", "revision"), covering(["stdio", "http"], ERAS))
async def test_a_thousand_resources_can_be_watched(way: str, revision: str) -> None:
    uris = [f"memo://{number}" for number in range(CROWD)]
    async with reach(way, revision) as client, client.watch(*uris) as changes:
        assert changes.refused == ()
        await client.call_tool("touch_all")
        async with asyncio.timeout(60):
            heard = {(await anext(changes)).uri for _ in uris}
        assert heard == set(uris)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_thousand_watches_hear_of_their_own_resources(revision: str) -> None:
    async with reach("stdio", revision) as client:
        watches = [client.watch(f"memo://{number}") for number in range(CROWD)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(watch.start() for watch in watches))
            await client.call_tool("touch_all")
            changes = await asyncio.gather(*(anext(watch) for watch in watches))
            await asyncio.gather(*(watch.close() for watch in watches))
        assert [change.uri for change in changes] == [f"memo://{number}" for number in range(CROWD)]
        assert client.session.watches == set()
        assert (await client.read_resource("memo://1")).contents
