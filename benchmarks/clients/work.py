"""The work of every client of the comparison: CLIENT stdio|http ADDRESS REVISION JOB.

ADDRESS is a URL, or a command as a JSON list. REVISION is the protocol revision, or "auto" to negotiate it. JOB is a
JSON object: the name of a function of this module as `job`, and its arguments. The result is printed as JSON. These
scripts run in separate environments, so this module imports only the standard library.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))

import content

text = cache(content.large_text)
blob = cache(content.large_blob)

PATIENCE = 30.0
"""Seconds after which a change without a notification counts as lost."""

PAUSE = 0.1
"""Seconds between two changes: servers may gather changes that follow closely into one announcement."""


class Face(Protocol):
    """Interface of a client. All methods may be called concurrently."""

    async def read(self, uri: str) -> str:
        """Return the text of a resource."""

    async def fetch(self, uri: str) -> bytes:
        """Return the bytes of a resource."""

    async def call(self, name: str, arguments: dict[str, int]) -> str:
        """Return the text that a tool gives back."""

    async def count(self) -> int:
        """Return how many resources there are, all of which have been fetched."""

    def watch(self, uris: list[str]) -> AbstractAsyncContextManager[Callable[[], Awaitable[str]]]:
        """Subscribe to resources. The context manager returns a function that waits for the URI of the next changed
        resource.
        """


Open = Callable[[], AbstractAsyncContextManager[Face]]


class WrongAnswer(Exception):
    """A response does not match its request."""


class Asking:
    """The requests of a load, each with the check of its answer."""

    def __init__(self, client: Face) -> None:
        self.client = client

    async def read(self) -> None:
        if await self.client.read(content.SMALL_URI) != content.SMALL_TEXT:
            raise WrongAnswer("another text")

    async def call(self) -> None:
        if await self.client.call("add", {"a": 2, "b": 20}) != "22":
            raise WrongAnswer("2 and 20 is not 22")

    async def text(self) -> None:
        if await self.client.read(content.TEXT_URI) != text():
            raise WrongAnswer("another large text")

    async def blob(self) -> None:
        if await self.client.fetch(content.BLOB_URI) != blob():
            raise WrongAnswer("other bytes")

    async def list(self) -> None:
        if await self.client.count() != content.RESOURCES:
            raise WrongAnswer("not all resources")


async def start(open: Open, begun: float, imported: float) -> dict[str, float]:
    """When the import was over, the connection was made, and the first answer was there: on the clock of all processes.

    `cpu` is the processor time until then, from the start of the process.
    """
    async with open() as client:
        connected = time.perf_counter()
        await Asking(client).read()
        answered, cpu = time.perf_counter(), time.process_time()
    return {"begun": begun, "imported": imported, "connected": connected, "answered": answered, "cpu": cpu}


async def load(open: Open, kind: str, in_flight: int, seconds: float) -> dict[str, float]:
    """Keep a number of requests in flight, and charge a whole number of rounds of them, after a warm-up."""
    async with open() as client:
        ask = getattr(Asking(client), kind)
        clock = time.perf_counter
        latencies: list[float] = []
        begun, opened, closed, cpu, count = clock(), 0.0, 0.0, 0.0, 0

        async def keep() -> None:
            nonlocal opened, closed, cpu, count
            while not closed:
                sent = clock()
                await ask()
                now = clock()
                if opened and not closed:
                    latencies.append(now - sent)
                count += 1
                if count % in_flight == 0 and not closed:
                    if not opened:
                        if now - begun >= seconds / 4:
                            opened, cpu = clock(), time.process_time()
                    elif now - opened >= seconds:
                        cpu, closed = time.process_time() - cpu, clock()

        await gather(keep, in_flight)
    number = len(latencies)
    percentiles = quantiles(latencies, n=100) if number > 1 else latencies * 99
    return {
        "cpu": cpu / number,
        "wall": (closed - opened) / number,
        "p50": percentiles[49],
        "p99": percentiles[98],
        "count": number,
    }


async def gather(work: Callable[[], Awaitable[None]], number: int) -> None:
    """Do something many times at once."""

    async def one() -> None:
        await work()

    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(one())


async def flight(open: Open, number: int, times: int) -> dict[str, float]:
    """Send many requests at once, and wait for all answers. The first time is not counted."""
    async with open() as client:
        ask = Asking(client).call
        await gather(ask, number)
        begun, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            await gather(ask, number)
        return {"cpu": (time.process_time() - cpu) / times, "wall": (time.perf_counter() - begun) / times}


async def watch(open: Open, number: int, times: int) -> dict[str, float]:
    """Subscribe to many resources, and hear of changes of one of them: from asking for the change to hearing of it."""
    uris = [entry.uri for entry in content.entries("full")][:number]
    async with open() as client:
        await client.read(content.CHANGING_URI)
        begun, cpu = time.perf_counter(), time.process_time()
        async with client.watch(uris) as changed:
            subscribed, spent = time.perf_counter(), time.process_time()
            delays: list[float] = []
            for _ in range(times + 1):  # the first one is not counted
                await asyncio.sleep(PAUSE)
                asked = time.perf_counter()
                touching = asyncio.ensure_future(client.call("touch", {}))
                async with asyncio.timeout(PATIENCE):
                    if await changed() != content.CHANGING_URI:
                        raise WrongAnswer("another resource has changed")
                delays.append(time.perf_counter() - asked)
                await touching
    return {"cpu": spent - cpu, "wall": subscribed - begun, "heard": sorted(delays[1:])[times // 2]}


async def memory(open: Open, steps: list[int]) -> dict[str, list[int]]:
    """Bytes that are resident after so many calls, 64 in flight."""
    resident: list[int] = []
    async with open() as client:
        ask = Asking(client).call
        done = 0
        for step in steps:

            async def some() -> None:
                nonlocal done
                while done < step:  # noqa: B023
                    done += 1
                    await ask()

            await gather(some, 64)
            pages = Path("/proc/self/statm").read_text().split()[1]
            resident.append(int(pages) * os.sysconf("SC_PAGE_SIZE"))
    return {"resident": resident}


JOBS: dict[str, Callable[..., Awaitable[Any]]] = {
    job.__name__: job for job in (flight, load, memory, start, watch)
}  # fmt: skip


def run(connect: Callable[[Any, str], AbstractAsyncContextManager[Face]], begun: float, imported: float) -> None:
    """Run the job given on the command line. `connect` takes the URL or the command, and the revision."""
    transport, address, revision, job = sys.argv[1:]
    where = json.loads(address) if transport == "stdio" else address
    options = json.loads(job)
    name = options.pop("job")
    if name == "start":
        options.update(begun=begun, imported=imported)
    print(json.dumps(asyncio.run(JOBS[name](lambda: connect(where, revision), **options))), flush=True)
