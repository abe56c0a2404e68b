"""A server that says what a test wants it to say, and keeps what it was sent, byte by byte.

It speaks through a real child process (``servers/stdio_relay.py`` hands on what passes), and over HTTP from a socket of
its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from carrel.client.client import Client
from support.servers import SERVERS

__all__ = [
    *("LATEST", "ON", "Exchange", "Partner", "Reply", "as_events", "as_json", "connected", "event", "in_turn", "never"),
    *("on_http", "on_stdio", "pack", "required", "silence"),
]

LATEST = "2026-07-28"
RELAY = SERVERS / "stdio_relay.py"
#: How long to wait for anything, in seconds. Nothing takes that long unless it is broken.
PATIENCE = 60.0
CAPABILITIES = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
#: What is answered if a test does not say otherwise.
USUAL: dict[str, Any] = {
    "completion/complete": {"completion": {"values": []}},
    "prompts/get": {"messages": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "resources/read": {"contents": [{"uri": "a:b", "text": "text"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
    "tools/list": {"tools": []},
    **{method: {} for method in ("logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe")},
}

#: A result, an error ({"error": …}), or what is done instead: it may return either, or None for silence.
Answer = dict[str, Any] | Callable[[dict[str, Any]], Any]


def silence(message: dict[str, Any]) -> None:
    """Answer nothing."""


@dataclass
class Exchange:
    """One HTTP request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the other side has closed the connection before the answer was complete."""

    @property
    def message(self) -> Any:
        return json.loads(self.body)


class Partner:
    """Answers by method. ``revision`` is the only one that it speaks; ``sent`` is every message, in order.

    What is in ``answers`` comes first, then what is usual. Over HTTP, ``stream`` has every answer sent as a stream.
    """

    def __init__(
        self,
        revision: str = LATEST,
        answers: Mapping[str, Answer] | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        stream: bool = False,
    ) -> None:
        self.revision = revision
        self.stateless = revision == LATEST
        self.answers: dict[str, Answer] = dict(answers or {})
        self.capabilities = CAPABILITIES if capabilities is None else capabilities
        self.stream = stream
        self.sent: list[dict[str, Any]] = []
        self.written = b""
        """Everything that came over the pipe."""
        self.exchanges: list[Exchange] = []
        """Every HTTP request."""
        self.session: str | None = None
        """The session id that is given out over HTTP."""
        self.starts = 0
        """How often the program was started."""
        self.respond: Callable[[Exchange], Any] | None = None
        """Answers HTTP requests instead; None: as usual."""
        self._say: dict[Any, Callable[[bytes], None]] = {}
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    # What tests look at

    def sent_of(self, method: str) -> list[dict[str, Any]]:
        """Return the messages with a method."""
        return [message for message in self.sent if message.get("method") == method]

    def responses(self) -> list[dict[str, Any]]:
        """Return the responses among what was sent."""
        return [message for message in self.sent if "method" not in message]

    async def until(self, method: str | None, count: int = 1) -> dict[str, Any]:
        """Wait until so many messages with a method (None: responses) have come; return the last one."""

        def found() -> list[dict[str, Any]]:
            return self.responses() if method is None else self.sent_of(method)

        async with asyncio.timeout(PATIENCE), self._arrived:
            await self._arrived.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]

    # What tests do

    def say(self, message: Mapping[str, Any] | bytes, via: Any = None) -> None:
        """Send a message that nobody asked for: over the pipe, or on the HTTP stream of the request ``via``."""
        data = message if isinstance(message, bytes) else pack(message)
        self._say[via](data)

    def notify(self, method: str, params: Mapping[str, Any] | None = None, via: Any = None) -> None:
        """Send a notification."""
        self.say({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}, via)

    def ask(self, method: str, params: Mapping[str, Any] | None = None, id: Any = "q", via: Any = None) -> None:
        """Send a request."""
        self.say({"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}, via)

    def answer(self, id: Any, result: Mapping[str, Any], via: Any = None) -> None:
        """Answer late."""
        self.say({"jsonrpc": "2.0", "id": id, "result": result}, via)

    # Below

    async def take(self, message: Any) -> list[dict[str, Any]]:
        """Take a message, and return what is answered."""
        parts = message if isinstance(message, list) else [message]
        replies = []
        for part in parts:
            async with self._arrived:
                self.sent.append(part)
                self._arrived.notify_all()
            if "id" in part and "method" in part:
                outcome = await self.outcome(part)
                if outcome is not None:
                    told = outcome if "error" in outcome else {"result": outcome}
                    replies.append({"jsonrpc": "2.0", "id": part["id"], **told})
        return replies

    async def outcome(self, message: dict[str, Any]) -> Any:
        method = message["method"]
        wanted = self.answers.get(method)
        if wanted is None:
            wanted = self.usual(method, message)
        if callable(wanted):
            wanted = wanted(message)
            if isinstance(wanted, Awaitable):
                wanted = await wanted
        return wanted

    def usual(self, method: str, message: dict[str, Any]) -> Answer:
        if self.stateless:
            if method == "server/discover":
                return {
                    "resultType": "complete",
                    "supportedVersions": [LATEST],
                    "capabilities": self.capabilities,
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "partner", "version": "1"}},
                }
            if method == "subscriptions/listen":
                return self.acknowledge
        elif method == "initialize":
            return {
                "protocolVersion": self.revision,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "partner", "version": "1"},
            }
        if method in USUAL and method not in (("ping", "logging/setLevel") if self.stateless else ()):
            return USUAL[method]
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}

    def acknowledge(self, message: dict[str, Any]) -> None:
        """Agree to a listen request, and leave it open."""
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        agreed = {"_meta": meta, "notifications": message["params"]["notifications"]}
        via = message["id"] if message["id"] in self._say else None
        self.notify("notifications/subscriptions/acknowledged", agreed, via)

    def spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE)


def pack(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


# Pipes


@asynccontextmanager
async def on_stdio(partner: Partner) -> AsyncIterator[list[str]]:
    """Give the command of a program that the partner speaks through."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        partner.starts += 1
        partner._say[None] = lambda data: writer.write(data + b"\n")
        partner.hang_up = writer.close  # type: ignore[attr-defined]

        async def reply(line: bytes) -> None:
            for message in await partner.take(json.loads(line)):
                writer.write(pack(message) + b"\n")

        try:
            while line := await reader.readline():
                partner.written += line
                task = asyncio.create_task(reply(line))
                partner.spawn(task)
                await asyncio.sleep(0)  # messages are taken in the order in which they came
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24)
    port = server.sockets[0].getsockname()[1]
    try:
        yield [sys.executable, "-I", "-S", str(RELAY), str(port)]
    finally:
        server.close()
        await partner.close()


# HTTP


@dataclass
class Reply:
    """An HTTP response. ``events``: the body is a stream that stays open while something may be said on it."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    events: AsyncIterator[bytes] | None = None


def as_json(message: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, {"Content-Type": "application/json", **headers}, pack(message))


def as_events(events: AsyncIterator[bytes], **headers: str) -> Reply:
    return Reply(200, {"Content-Type": "text/event-stream", **headers}, events=events)


def event(message: Any, **fields: Any) -> bytes:
    """Return an event of a stream; ``fields`` are such as id and retry."""
    lines = [f"{name}: {value}" for name, value in fields.items()]
    if message is not None:
        lines.append(f"data: {message if isinstance(message, str) else json.dumps(message)}")
    return ("\n".join(lines) + "\n\n").encode()


@asynccontextmanager
async def on_http(partner: Partner) -> AsyncIterator[str]:
    """Give the URL of an MCP endpoint that the partner speaks at."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (exchange := await read_request(reader)) is not None:
                partner.exchanges.append(exchange)
                await answer(exchange, reader, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply: Any = None if partner.respond is None else partner.respond(exchange)
        if isinstance(reply, Awaitable):
            reply = await reply
        if reply is None:
            reply = await usual_reply(partner, exchange)
        head = f"HTTP/1.1 {reply.status} Status\r\n"
        if reply.events is None:
            fields = {"Content-Length": str(len(reply.body)), **reply.headers}
            writer.write((head + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n").encode() + reply.body)
            await writer.drain()
            return
        fields = {"Transfer-Encoding": "chunked", **reply.headers}
        writer.write((head + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n").encode())
        await writer.drain()
        gone = asyncio.create_task(reader.read(1))
        try:
            async for piece in until_gone(reply.events, gone):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            if gone.done():
                exchange.closed.set()
            else:
                writer.write(b"0\r\n\r\n")
        finally:
            gone.cancel()
            writer.close()

    server = await asyncio.start_server(lambda reader, writer: serve(reader, writer), "127.0.0.1", 0, limit=2**24)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.close()
        await partner.close()


async def read_request(reader: asyncio.StreamReader) -> Exchange | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, body)


async def until_gone(events: AsyncIterator[bytes], gone: asyncio.Task[bytes]) -> AsyncIterator[bytes]:
    """Iterate over events until there are no more, or the other side is gone."""
    while True:
        following = asyncio.ensure_future(anext(events, None))
        await asyncio.wait((following, gone), return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            await asyncio.wait((following,))
            return
        piece = following.result()
        if piece is None:
            return
        yield piece


async def usual_reply(partner: Partner, exchange: Exchange) -> Reply:
    headers = {}
    if exchange.method != "POST":
        return Reply(200 if exchange.method == "DELETE" else 405)
    message = exchange.message
    if partner.session is not None and isinstance(message, dict) and message.get("method") == "initialize":
        headers["Mcp-Session-Id"] = partner.session
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        await partner.take(message)
        return Reply(202)
    if partner.stream or message["method"] == "subscriptions/listen":
        return as_events(stream_of(partner, message), **headers)
    replies = await partner.take(message)
    if not replies:
        return as_events(never(), **headers)
    status = 200
    if partner.stateless and "error" in replies[0]:
        status = 404 if replies[0]["error"]["code"] == -32601 else 400
    return as_json(replies[0], status, **headers)


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def stream_of(partner: Partner, message: dict[str, Any]) -> AsyncIterator[bytes]:
    """The events of a request: what is said on its stream, then its answer, if there is one."""
    said: asyncio.Queue[bytes | None] = asyncio.Queue()
    partner._say[message["id"]] = said.put_nowait

    async def answer() -> None:
        for reply in await partner.take(message):
            said.put_nowait(pack(reply))
            said.put_nowait(None)

    partner.spawn(answer())
    while (data := await said.get()) is not None:
        yield b"data: " + data + b"\n\n"


ON = {"stdio": on_stdio, "http": on_http}


@asynccontextmanager
async def connected(partner: Partner, transport: str = "stdio", **options: Any) -> AsyncIterator[Client]:
    """Give a client that is connected to the partner."""
    async with (
        ON[transport](partner) as target,
        Client(target, **{"timeout": PATIENCE, "patience": PATIENCE, **options}) as client,
    ):
        yield client


def required(requests: Mapping[str, Any] | None = None, state: str | None = None) -> dict[str, Any]:
    """Make a result that asks for input."""
    result: dict[str, Any] = {"resultType": "input_required"}
    if requests is not None:
        result["inputRequests"] = dict(requests)
    if state is not None:
        result["requestState"] = state
    return result


def in_turn(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """Answer the first time with the first of these, and so on; the last one is for all that come later."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
