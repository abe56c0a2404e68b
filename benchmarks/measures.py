"""How each figure of the comparison is measured."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from . import messages
from .audience import Audience
from .http_load import Session, load
from .messages import HANDSHAKE, Question
from .processes import CONTENDERS, GATEWAYS, Contender, Process, ServerFailed
from .stdio_load import StdioClient
from .window import Sample

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

STREAMS = 1_000
"""Listeners in the fan-out row, sessions and streams in the memory rows."""

PAUSE = 0.1
"""Seconds between two changes: servers may gather changes that follow closely into one announcement."""

WARMED = 100
"""Sessions or streams opened before memory is read for the first time, so that pools and caches are filled."""


class Pool:
    """The servers that are running, so that rows of one kind share them; a failed one is replaced."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[tuple[str, str, str], Process] = {}
        self.clients: dict[Process, StdioClient] = {}

    def process(self, contender: Contender, transport: str, revision: str) -> Process:
        """The full server for this transport and revision, started when it is not running."""
        key = (contender.name, transport, revision)
        process = self.running.get(key)
        if process is None:
            process = self.running[key] = Process(contender, transport, "full")
            if transport == "http":
                process.wait_for_port()
        return process

    def client(self, contender: Contender, revision: str) -> StdioClient:
        """A client of the full stdio server, past its handshake."""
        process = self.process(contender, "stdio", revision)
        client = self.clients.get(process)
        if client is None:
            client = self.clients[process] = StdioClient(process)
            client.open(revision)
        return client

    def drop(self, contender: Contender, transport: str, revision: str) -> None:
        """Stop a server that failed, so that the next row gets a fresh one."""
        process = self.running.pop((contender.name, transport, revision), None)
        if process is not None:
            self.clients.pop(process, None)
            process.stop()

    def close(self) -> None:
        """Stop all servers."""
        for process in self.running.values():
            process.stop()
        self.running.clear()
        self.clients.clear()


Measure = Callable[[Contender, Pool], Sample]


def measure_start(contender: Contender, pool: Pool) -> Sample:
    """Processor time from the start of the process to its answer to `initialize`, with little registered."""
    process = Process(contender, "stdio", "small")
    try:
        StdioClient(process).ask(messages.initialize())
        return Sample(process.cpu(), time.perf_counter() - process.started)
    finally:
        process.stop()


def stdio(ask: Callable[[str], list[Question]], revision: str, in_flight: int) -> Measure:
    """Processor time of one request on stdio."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        try:
            return pool.client(contender, revision).load(ask(revision), in_flight, pool.seconds)
        except BaseException:
            pool.drop(contender, "stdio", revision)
            raise

    return measure


def http(ask: Callable[[str], list[Question]], revision: str, connections: int) -> Measure:
    """Processor time of one request on HTTP."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        try:
            process = pool.process(contender, "http", revision)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(load(process, ask(revision), connections, pool.seconds))
        except BaseException:
            pool.drop(contender, "http", revision)
            raise

    return measure


def gateway(transport: str, ask: Callable[[str], list[Question]], revision: str, in_flight: int) -> Measure:
    """Processor time of one request in a gateway that passes it on to the bare server, over this transport."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        if contender.name not in GATEWAYS:
            raise ServerFailed("is not measured as a gateway: see --gateway")
        bare = CONTENDERS["bare"]
        url = f"http://127.0.0.1:{pool.process(bare, 'http', revision).port}/mcp" if transport == "http" else ""
        process = Process(GATEWAYS[contender.name], "stdio", url or bare.stdio)
        try:
            client = StdioClient(process)
            client.open(revision)
            return client.load(ask(revision), in_flight, pool.seconds)
        finally:
            process.stop()

    return measure


async def fan_out(process: Process, times: int) -> Sample:
    """Processor time of one change that is sent to a thousand streams."""
    audience = Audience(process)
    try:
        await audience.choose_era()
        await audience.open(STREAMS - 1)
        await audience.announce()
        cpu = process.cpu()
        walls = []
        for _ in range(times):
            await asyncio.sleep(PAUSE)
            walls.append(await audience.announce())
        cpu = process.cpu() - cpu
        return Sample(cpu / times, median(walls), median(walls), max(walls), times)
    finally:
        audience.close()


async def memory_idle(process: Process) -> Sample:
    """Resident memory after one session has read the small text."""
    session = Session(process, HANDSHAKE)
    await session.open()
    await session.ask(messages.small_read(HANDSHAKE)[0])
    session.close()
    return Sample(process.memory())


async def memory_per_session(process: Process) -> Sample:
    """Growth of resident memory per session that was opened and is kept."""
    session = Session(process, HANDSHAKE)
    await session.open()
    for _ in range(WARMED):
        await session.renew()
    before = process.memory()
    for _ in range(STREAMS):
        await session.renew()
    after = process.memory()
    session.close()
    return Sample((after - before) / STREAMS, count=STREAMS)


async def memory_per_stream(process: Process) -> Sample:
    """Growth of resident memory per open stream; sessions that the era needs are opened before."""
    audience = Audience(process)
    try:
        await audience.choose_era()
        await audience.open(WARMED)
        requests = await audience.prepare(STREAMS - WARMED)
        before = process.memory()
        await audience.connect(requests)
        return Sample((process.memory() - before) / len(requests), count=len(requests))
    finally:
        audience.close()


def fresh(measure: Callable[[Process], Coroutine[Any, Any, Sample]]) -> Measure:
    """A measurement on a separate HTTP server, with few registered handlers."""

    def run(contender: Contender, pool: Pool) -> Sample:
        process = Process(contender, "http", "small")
        try:
            process.wait_for_port()
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(measure(process))
        finally:
            process.stop()

    return run


def run_statement(contender: Contender) -> tuple[int, float]:
    """Return the number of modules loaded and the processor seconds spent by importing and creating a server."""
    code = (
        "import sys, time\nbegun = time.process_time()\n"
        f"{contender.statement}\nspent = time.process_time() - begun\nprint(len(sys.modules), spent)"
    )
    modules, spent = contender.run(code).split()
    return int(modules), float(spent)


def measure_modules(contender: Contender, pool: Pool) -> Sample:
    """Modules that are loaded after the import."""
    return Sample(run_statement(contender)[0])


def measure_import(contender: Contender, pool: Pool) -> Sample:
    """Processor time of the import."""
    return Sample(run_statement(contender)[1])
