"""Plays a golden conversation on stdio, with real pipes or a real process, and over HTTP, with a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any, Protocol
from unittest.mock import patch

import httpx2

from carrel import Server
from carrel.server import watching
from carrel.transports.server import stdio
from golden.conversation import HERE, Conversation, Line, compare, opened, request_headers, substitute
from support.http_server import over_http

__all__ = ["Mismatch", "play"]

#: How long to wait for anything, in seconds. Nothing takes that long unless it is broken.
PATIENCE = 60.0
#: The longest line of a server, in bytes.
LIMIT = 1 << 24
STANDALONE = "the GET stream"
#: Notifications that belong to the request being answered.
REQUEST_SCOPED = (
    "notifications/progress",
    "notifications/message",
    "notifications/cancelled",
    "notifications/elicitation/complete",
)


class Mismatch(AssertionError):
    """The server did not say what the conversation says."""


class Witness(Protocol):
    """Somebody who wants to hear what is said."""

    def sent(self, message: Any) -> None: ...

    def heard(self, message: Any) -> None: ...


async def play(conversation: Conversation, transport: str, witness: Witness | None = None) -> None:
    """Play a conversation on "stdio", with a "process" on stdio, or over "http".

    Raises:
        Mismatch: the server said something else.
    """
    async with PLAYERS[transport](conversation, witness) as player:
        await player.play()


class Player(ABC):
    """What both transports have in common: waiting for the lines that the server is to say next."""

    def __init__(self, conversation: Conversation, witness: Witness | None) -> None:
        self.conversation = conversation
        self.witness = witness
        self.bound: dict[str, Any] = {}
        self.block: list[Line] = []
        self.last: object = None
        """What the client said last, by its id or another key."""
        self.asked: object = None
        """The request that it sent last."""

    def build(self) -> Server:
        """Make the application that the conversation is with."""
        app: Server = import_module(f"golden.{self.conversation.app}").build()
        return app

    async def play(self) -> None:
        """Play the conversation.

        Raises:
            Mismatch: the server said something else.
        """
        # A list that does not wait until its folder is watched is announced as changed when it is.
        with patch.object(watching, "LIST_PATIENCE", PATIENCE):
            for line in (*self.conversation.handshake, *self.conversation.lines):
                await self.take(line)
            await self.finish()

    async def take(self, line: Line) -> None:
        if line.kind in ("server", "status"):
            self.block.append(line)
            return
        await self.settle()
        await self.say(line)

    async def settle(self) -> None:
        """Hear what the server was to say since the client spoke last."""
        block, self.block = self.block, []
        if block:
            await self.hear(block)

    @abstractmethod
    async def say(self, line: Line) -> None:
        """Say a line to the server."""

    @abstractmethod
    async def hear(self, block: Sequence[Line]) -> None:
        """Hear what the server says, and compare it with these lines."""

    async def finish(self) -> None:
        """Hear the rest and see that there is nothing more."""
        await self.settle()

    def stream_of(self, message: Any) -> object:
        """Say which HTTP stream a message of the server travels on: that of a request, or the one opened by GET."""
        if not isinstance(message, dict):
            return self.last
        if "id" in message and "method" in message:
            return self.asked  # a question
        if message.get("id") is not None:
            return message["id"]
        params = message.get("params")
        subscription = params.get("_meta", {}).get("io.modelcontextprotocol/subscriptionId") if params else None
        if subscription is not None:
            return subscription
        if message.get("method") in REQUEST_SCOPED:
            return self.asked
        return self.last if "error" in message else STANDALONE

    def check(self, line: Line, message: Any) -> None:
        expected = line.value
        if self.witness is not None:
            self.witness.heard(message)
        differences = compare(expected, message, self.bound)
        if differences:
            raise self.mismatch(
                line,
                *differences,
                f"expected {json.dumps(expected, ensure_ascii=False)}",
                f"     got {json.dumps(message, ensure_ascii=False)}",
            )

    def mismatch(self, line: Line | None, *explanation: str) -> Mismatch:
        where = f"{self.conversation.path}:{line.number if line else 'end'}"
        return Mismatch("\n  ".join([f"{where} ({self.conversation.about})", *explanation]))

    def written(self, line: Line) -> Any:
        """Return the message of a client line as it goes out."""
        message = substitute(line.value, self.bound)
        if not line.bare:
            message = opened(message, self.conversation)
        if self.witness is not None:
            self.witness.sent(message)
        if isinstance(message, dict) and "id" in message and "method" in message:
            self.asked = message["id"]
        return message


class StreamPlayer(Player):
    """A client that talks over one stream, on which all messages of the server come."""

    @abstractmethod
    async def write(self, text: str) -> None:
        """Send a message."""

    @abstractmethod
    async def read(self, line: Line) -> Any:
        """Return the next message of the server, where ``line`` is expected."""

    async def say(self, line: Line) -> None:
        if line.kind == "raw":
            text = line.value
        elif line.kind == "hangup":
            params = {"requestId": line.value}
            text = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        else:
            message = self.written(line)
            text = json.dumps(message, ensure_ascii=False)
            self.last = message.get("id") if isinstance(message, dict) else None
        await self.write(text)

    async def hear(self, block: Sequence[Line]) -> None:
        waiting: dict[object, list[Line]] = {}
        spoken = [line for line in block if line.value is not None]
        for line in spoken:
            waiting.setdefault(self.stream_of(line.value), []).append(line)
        for line in spoken:
            message = await self.read(line)
            lines = waiting.get(self.stream_of(message))
            if not lines:
                raise self.mismatch(line, f"expected {json.dumps(line.value)}", f"     got {json.dumps(message)}")
            self.check(lines.pop(0), message)


class StdioPlayer(StreamPlayer):
    """A client of a server that runs beside it, over a pipe in either direction."""

    async def __aenter__(self) -> StdioPlayer:
        loop = asyncio.get_running_loop()
        source, to_server = os.pipe()
        from_server, target = os.pipe()
        self.output = asyncio.StreamReader(limit=LIMIT)
        protocol = asyncio.StreamReaderProtocol(self.output)
        self.reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(from_server, "rb", 0))
        self.input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(to_server, "wb", 0))
        self.serving = asyncio.create_task(stdio.serve(self.build(), source, target))
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.input.close()
        self.reading.close()
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)

    async def end(self) -> int:
        """Wait until the server has ended, and return its exit code."""
        await self.serving
        return 0

    async def write(self, text: str) -> None:
        self.input.write(text.encode() + b"\n")

    async def read(self, line: Line) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                text = await self.output.readline()
        except TimeoutError:
            raise self.mismatch(line, f"nothing came in {PATIENCE} s, expected {json.dumps(line.value)}") from None
        if not text:
            raise self.mismatch(line, f"the server closed its output, expected {json.dumps(line.value)}")
        return json.loads(text)

    async def finish(self) -> None:
        await super().finish()
        self.input.close()
        try:
            async with asyncio.timeout(PATIENCE):
                rest = await self.output.read()
                code = await self.end()
        except TimeoutError:
            raise self.mismatch(None, f"the server was still there {PATIENCE} s after its input ended") from None
        if rest:
            raise self.mismatch(None, f"the server also said {rest.decode()}")
        if code != 0:
            raise self.mismatch(None, f"the server ended with {code}")


class ProcessPlayer(StdioPlayer):
    """A client of a server that is a process of its own, over its standard streams."""

    async def __aenter__(self) -> ProcessPlayer:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / f"{self.conversation.app}.py"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LIMIT,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin.transport, self.process.stdout
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    async def end(self) -> int:
        return await self.process.wait()


class Stream:
    """The answer to one HTTP request: its status, headers, and messages as they come."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.checked = False
        self.expected_status = 200
        self.task: asyncio.Task[None] | None = None

    async def fetch(self, client: httpx2.AsyncClient, method: str, headers: dict[str, str], body: bytes | None) -> None:
        try:
            async with client.stream(method, "/mcp", headers=headers, content=body) as response:
                self.status = response.status_code
                self.headers = {name.lower(): value for name, value in response.headers.items()}
                self.begun.set()
                if self.headers.get("content-type", "").startswith("text/event-stream"):
                    async for message in events(response):
                        self.messages.put_nowait(message)
                elif text := await response.aread():
                    self.messages.put_nowait(json.loads(text) if self.is_json else text.decode())
        finally:
            self.begun.set()

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type", "").startswith("application/json")


def id_of(text: str) -> object:
    """Return the id of a message that need not be one."""
    try:
        id = json.loads(text)["id"]
    except (ValueError, TypeError, LookupError):
        return None
    return id if isinstance(id, str | int) else None


async def events(response: httpx2.Response) -> AsyncIterator[Any]:
    """Yield the messages of an event stream. Comments, and events without data, carry none."""
    data: list[str] = []
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text:
                yield json.loads(text)


class HttpPlayer(Player):
    """A client of the Streamable HTTP transport."""

    async def __aenter__(self) -> HttpPlayer:
        self.session: str | None = None
        self.streams: dict[object, Stream] = {}
        self.open = contextlib.AsyncExitStack()
        try:
            url = self.open.enter_context(over_http(self.build()))
            self.client = await self.open.enter_async_context(
                httpx2.AsyncClient(base_url=url, timeout=None, trust_env=False)
            )
            self.tasks = await self.open.enter_async_context(contextlib.aclosing(Tasks()))
        except BaseException:
            await self.open.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.open.aclose()

    async def say(self, line: Line) -> None:
        if line.kind == "hangup":
            stream = self.streams.pop(line.value)
            assert stream.task is not None
            await self.tasks.cancel(stream.task)
            self.see_nothing_left(stream, line)
        elif line.kind == "get":
            headers = request_headers(None, self.conversation.revision, self.session)
            headers["Accept"] = "text/event-stream"
            self.begin(("get", line.number), "GET", {**headers, **line.value}, None)
        elif line.kind == "raw":
            headers = request_headers(None, self.conversation.revision, self.session)
            self.begin(
                id_of(line.value) or ("raw", line.number), "POST", self.altered(headers, line), line.value.encode()
            )
        else:
            message = self.written(line)
            described = None if line.bare else message
            headers = request_headers(described, self.conversation.revision, self.session)
            single = isinstance(message, dict)
            is_request = single and "id" in message and "method" in message
            key = message["id"] if is_request else ("sent", line.number)
            body = json.dumps(message, ensure_ascii=False).encode()
            stream = self.begin(key, "POST", self.altered(headers, line), body)
            if single and not is_request:
                stream.expected_status = 202
                await self.done(stream, line)
                if message.get("method") == "notifications/initialized":
                    await self.listen(line)

    def altered(self, headers: dict[str, str], line: Line) -> dict[str, str]:
        names = {name.lower() for name in line.headers}
        kept = {name: value for name, value in headers.items() if name.lower() not in names}
        return kept | {name: substitute(value, self.bound) for name, value in line.headers.items() if value is not None}

    def begin(self, key: object, method: str, headers: dict[str, str], body: bytes | None) -> Stream:
        stream = self.streams[key] = Stream()
        stream.task = self.tasks.spawn(stream.fetch(self.client, method, headers, body))
        self.last = key
        return stream

    async def listen(self, line: Line) -> None:
        """Open the stream on which a session hears what belongs to no request."""
        last = self.last
        headers = request_headers(None, self.conversation.revision, self.session)
        stream = self.begin(STANDALONE, "GET", {**headers, "Accept": "text/event-stream"}, None)
        self.last = last
        async with asyncio.timeout(PATIENCE):
            await stream.begun.wait()
        if stream.status != 200:
            raise self.mismatch(line, f"GET was answered with {stream.status}")

    async def done(self, stream: Stream, line: Line | None) -> None:
        assert stream.task is not None
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(stream.task)
        except TimeoutError:
            raise self.mismatch(line, f"an answer had no end after {PATIENCE} s") from None

    async def hear(self, block: Sequence[Line]) -> None:
        for line in block:
            key = self.last if line.value is None else self.stream_of(line.value)
            stream = self.streams.get(key)
            if stream is None:
                raise self.mismatch(line, f"there is no stream on which this could come: {json.dumps(line.value)}")
            await self.see_beginning(stream, line)
            if line.kind == "status":
                await self.done(stream, line)
                stream.messages = asyncio.Queue()
                continue
            if line.value is None:
                await self.done(stream, line)
                self.see_nothing_left(stream, line)
                continue
            self.check(line, await self.next_message(stream, line))

    async def next_message(self, stream: Stream, line: Line) -> Any:
        assert stream.task is not None
        waiting = asyncio.ensure_future(stream.messages.get())
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait((waiting, stream.task), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise self.mismatch(line, f"nothing came in {PATIENCE} s, expected {json.dumps(line.value)}") from None
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting.cancelled() or not waiting.done():
            raise self.mismatch(line, f"the answer ended (status {stream.status}), expected {json.dumps(line.value)}")
        return waiting.result()

    async def see_beginning(self, stream: Stream, line: Line) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await stream.begun.wait()
        except TimeoutError:
            raise self.mismatch(line, f"no answer in {PATIENCE} s, expected {json.dumps(line.value)}") from None
        if self.session is None and "mcp-session-id" in stream.headers:
            self.session = self.bound["session"] = stream.headers["mcp-session-id"]
        expected = line.status or stream.expected_status
        if not stream.checked and stream.status != expected:
            body = "" if stream.messages.empty() else f", with {json.dumps(stream.messages.get_nowait())}"
            raise self.mismatch(line, f"the status is {stream.status}, not {expected}{body}")
        for name, value in line.headers.items():
            if differences := compare(value, stream.headers.get(name.lower()), self.bound, f"the header {name}"):
                raise self.mismatch(line, *differences)
        stream.checked = True

    def see_nothing_left(self, stream: Stream, line: Line | None) -> None:
        if not stream.messages.empty():
            raise self.mismatch(line, f"the server also said {json.dumps(stream.messages.get_nowait())}")

    async def finish(self) -> None:
        await super().finish()
        standalone = self.streams.pop(STANDALONE, None)
        for stream in self.streams.values():
            await self.done(stream, None)
            self.see_nothing_left(stream, None)
            if not stream.checked and stream.status != stream.expected_status:
                raise self.mismatch(None, f"a status was {stream.status}, not {stream.expected_status}")
        if standalone is not None:
            assert self.session is not None
            headers = request_headers(None, self.conversation.revision, self.session)
            answer = await self.client.delete("/mcp", headers=headers)
            if not answer.is_success:
                raise self.mismatch(None, f"DELETE was answered with {answer.status_code}")
            await self.done(standalone, None)
            self.see_nothing_left(standalone, None)


class Tasks:
    """The requests that are under way; none outlives the conversation."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.running.add(task)
        return task

    async def cancel(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.running.discard(task)

    async def aclose(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


PLAYERS: dict[str, type[StdioPlayer] | type[HttpPlayer]] = {
    "stdio": StdioPlayer,
    "process": ProcessPlayer,
    "http": HttpPlayer,
}
