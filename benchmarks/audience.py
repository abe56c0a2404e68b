"""Many clients that listen for the same change: open a thousand streams, change a resource, receive all events."""

import asyncio
import json
import time
from typing import cast

from .http_load import Session
from .messages import HANDSHAKE, STATELESS, WrongAnswer, listen, subscribe, touch
from .processes import PATIENCE, Process, ServerFailed
from .servers import content


class Stream(asyncio.Protocol):
    """One connection whose answer is a stream of events."""

    def __init__(self, audience: "Audience", request: bytes) -> None:
        self.audience = audience
        self.request = request
        self.rest = b""
        self.streaming = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def connection_lost(self, error: Exception | None) -> None:
        self.audience.lose(f"closed a stream: {error or 'without an error'}")

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        if not self.streaming:
            head, end, body = data.partition(b"\r\n\r\n")
            if not end:
                self.rest = data
                return
            if head[9:12] != b"200" or b"text/event-stream" not in head.lower():
                self.audience.lose(f"no stream: HTTP {head[9:12].decode()} {body[:200]!r}")
                return
            self.streaming = True
            self.audience.opened()
            data = body
        # Sizes of chunks, comments and the other fields of an event are lines too, and are passed over.
        *lines, self.rest = data.split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip():
                self.audience.hear(line[5:])


class Audience:
    """Open streams of one server, in the newest era in which it offers them."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.streams: list[Stream] = []
        self.speaker: Session | None = None
        self.revision = STATELESS
        self.expected = 0
        self.heard = 0
        self.complete = asyncio.Event()
        self.failure: str | None = None

    async def choose_era(self) -> None:
        """Detect which era of subscriptions this server supports, by opening one stream and receiving an event. Keep
        the stream.

        Raises:
            ServerFailed: Neither listening nor subscribing works.
        """
        try:
            await self.open(1)
            return
        except (ServerFailed, WrongAnswer) as error:
            reason = str(error)
        self.close()
        self.revision, self.failure = HANDSHAKE, None
        try:
            await self.open(1)
        except (ServerFailed, WrongAnswer) as error:
            raise ServerFailed(f"cannot listen ({reason}) nor subscribe ({error})") from None

    async def prepare(self, number: int) -> list[bytes]:
        """The requests that open this many streams; sessions are made for them where the era has sessions."""
        if self.speaker is None:
            self.speaker = Session(self.process, self.revision)
            await self.speaker.open()
        if self.revision == STATELESS:
            question = listen()
            first = len(self.streams)
            return [self.speaker.post(question, question.body(first + n)) for n in range(number)]
        requests = []
        for _ in range(number):
            await self.speaker.renew()
            await self.speaker.ask(subscribe())
            requests.append(self.speaker.get())
        return requests

    async def open(self, number: int) -> None:
        """Open more streams and wait until the server has confirmed each."""
        await self.connect(await self.prepare(number))

    async def connect(self, requests: list[bytes]) -> None:
        """Send each request on a separate connection, and wait until all responses are streams."""
        loop = asyncio.get_running_loop()
        # A stateless stream opens with its acknowledgement, which is an event.
        self.expect(len(requests) * (2 if self.revision == STATELESS else 1))
        for request in requests:
            _, stream = await loop.create_connection(
                lambda request=request: Stream(self, request), "127.0.0.1", self.process.port
            )
            self.streams.append(stream)
        await self.wait()

    async def announce(self) -> float:
        """Change the resource, and return the seconds until every stream has received the event."""
        assert self.speaker is not None
        self.expect(len(self.streams))
        begun = time.perf_counter()
        await self.speaker.ask(touch(self.revision))
        await self.wait()
        return time.perf_counter() - begun

    def detach(self) -> list[int]:
        """Stop reading from the streams, and return their descriptors."""
        descriptors = []
        for stream in self.streams:
            assert stream.transport is not None
            stream.transport.pause_reading()
            descriptors.append(stream.transport.get_extra_info("socket").fileno())
        return descriptors

    def expect(self, number: int) -> None:
        """Wait for this many events from now on."""
        self.expected = number
        self.heard = 0
        self.complete.clear()
        if self.failure:
            self.complete.set()

    def opened(self) -> None:
        """Count a stream that the server has begun."""
        self.count()

    def hear(self, data: bytes) -> None:
        """Count one event that a stream carried."""
        message = json.loads(data)
        match message.get("method"):
            case "notifications/resources/updated" if message["params"]["uri"] == content.CHANGING_URI:
                self.count()
            case "notifications/subscriptions/acknowledged":
                self.count()
            case _:
                self.lose(f"another message: {data[:200]!r}")

    def count(self) -> None:
        self.heard += 1
        if self.heard == self.expected:
            self.complete.set()

    def lose(self, reason: str) -> None:
        """Record that a stream was lost, and wake up the waiters."""
        self.failure = self.failure or reason
        self.complete.set()

    async def wait(self) -> None:
        """Return when all expected events have arrived.

        Raises:
            ServerFailed: A stream was refused or closed, or events are missing.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self.complete.wait()
        except TimeoutError:
            missing = self.expected - self.heard
            raise ServerFailed(f"{missing} of {self.expected} events missing after {PATIENCE:.0f} s") from None
        if self.failure:
            raise ServerFailed(self.failure)

    def close(self) -> None:
        """Drop every connection."""
        for stream in self.streams:
            if stream.transport is not None:
                stream.transport.abort()
        self.streams.clear()
        if self.speaker is not None:
            self.speaker.close()
            self.speaker = None
