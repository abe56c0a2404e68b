"""Budgets of memory: what the server keeps for a client on stdio that stops reading, without processes."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from carrel import Limits, Server
from carrel.transports.server.stdio import Stdio
from carrel.transports.server.stdio_threads import HIGH_WATER
from support.stdio_process import encode, initialize, request

REQUESTS = 300
SIZE = 200_000
THREADS = 4
KEPT = 10 * SIZE
ROOM = 5 * SIZE


class Pipes:
    """Transport of both standard streams, whose client stops reading after some responses."""

    def __init__(self, stdio: Stdio, room: float) -> None:
        self.stdio = stdio
        self.room = room
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data
        if len(self.written) > self.room:
            self.stdio.pause_writing()

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Library:
    """Server with a large resource, which counts the texts that were read and are not in a response yet."""

    def __init__(self) -> None:
        self.app = Server("library", limits=Limits(max_threads_per_client=THREADS, max_kept_bytes_per_client=KEPT))
        self.lock = threading.Lock()
        self.unsent = self.most_unsent = 0
        self.app.resource("memo://big")(self.read)

    def read(self) -> str:
        with self.lock:
            self.unsent += 1
            self.most_unsent = max(self.most_unsent, self.unsent)
        return "x" * SIZE

    def connect(self) -> Stdio:
        stdio = Stdio(self.app.endpoint)
        send = stdio.send

        def count_and_send(message: bytes, key: Any = None) -> None:
            if b'"id"' in message[:40]:
                with self.lock:
                    self.unsent -= 1
            send(message, key)

        stdio.send = count_and_send  # type: ignore[method-assign]
        return stdio


async def settled(stdio: Stdio) -> None:
    """Wait until all requests that were started have a response, and no more are about to be started."""
    async with asyncio.timeout(100):
        while stdio._dispatcher.in_flight or stdio._next is not None:
            await asyncio.sleep(0)


async def test_large_responses_to_a_client_that_stops_reading_take_bounded_memory() -> None:
    library = Library()
    await library.app.endpoint.start()
    stdio = library.connect()
    pipes = Pipes(stdio, ROOM)
    stdio.connection_made(pipes)
    stdio.open(pipes)
    reads = [request(id, "resources/read", {"uri": "memo://big"}) for id in range(1, REQUESTS + 1)]
    stdio.data_received(b"".join(map(encode, [initialize(id=0), *reads])))
    await settled(stdio)
    assert not stdio._may_write.is_set()
    # Of each thread: a text that it has just read, and one that waits for the event loop.
    assert library.most_unsent <= 3 * THREADS
    # One write collects responses of the same event loop iteration, up to the first beyond the high-water mark.
    assert len(pipes.written) < ROOM + HIGH_WATER + 2 * SIZE
    assert sum(map(len, stdio._leaving)) < KEPT + 3 * THREADS * SIZE
    pipes.room = float("inf")
    stdio.resume_writing()
    await settled(stdio)
    await stdio.close(grace=10)
    responses = [json.loads(line) for line in pipes.written.splitlines()]
    assert sorted(response["id"] for response in responses) == list(range(REQUESTS + 1))
    refused = {response["error"]["message"] for response in responses if "error" in response}
    assert all("max_kept_bytes_per_client" in message for message in refused)
    await library.app.endpoint.stop()
