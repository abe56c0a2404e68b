"""A server over HTTP within the test, on a real socket and with uvicorn's protocol; a client that sends any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from support.stdio_process import STATELESS, initialize, note, request

#: Seconds that anything may take.
PATIENCE = 60.0
BOTH = "application/json, text/event-stream"


class Event:
    """One server-sent event: ``data`` as text, or a comment."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.id = self.retry = self.data = self.comment = None
        for line in lines:
            field, _, value = line.partition(":")
            setattr(self, field or "comment", value.removeprefix(" "))

    @property
    def message(self) -> Any:
        return json.loads(self.data)

    def __repr__(self) -> str:
        return f"Event({self.__dict__})"


class Reply:
    """A response, as far as it has come."""

    def __init__(self, client: Client, status: int, headers: list[tuple[str, str]]) -> None:
        self.client = client
        self.status = status
        self.headers = dict(headers)
        self.all_headers = headers
        self._text = ""
        self._ended = False

    async def piece(self) -> bytes:
        """Return the next piece of the body; empty at the end."""
        reader = self.client.reader
        if self._ended:
            return b""
        if self.headers.get("transfer-encoding") == "chunked":
            size = int(await reader.readline(), 16)
            data = (await reader.readexactly(size + 2))[:-2]
            self._ended = not size
        else:
            self._ended = True
            data = await reader.readexactly(int(self.headers.get("content-length", 0)))
        return data

    async def body(self) -> bytes:
        """Return the whole body."""
        pieces = []
        while piece := await asyncio.wait_for(self.piece(), PATIENCE):
            pieces.append(piece)
        return b"".join(pieces)

    async def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", await self.body()
        return json.loads(await self.body())

    async def event(self) -> Event | None:
        """Return the next event or comment of a stream; None at its end."""
        assert self.headers["content-type"] == "text/event-stream", await self.body()
        while True:
            text = self._text.replace("\r\n", "\n")
            block, end, rest = text.partition("\n\n")
            if end:
                self._text = rest
                return Event(block.split("\n"))
            pieces = []
            while b"\n" not in (piece := await asyncio.wait_for(self.piece(), PATIENCE)) and piece:
                pieces.append(piece)
            if not piece:
                assert not self._text, f"the stream ended within an event: {self._text!r}"
                return None
            self._text += b"".join([*pieces, piece]).decode()

    async def message(self) -> Any:
        """Return the next message of a stream; None at its end."""
        while (event := await self.event()) is not None:
            if event.data:
                return event.message
        return None

    async def messages(self) -> list[Any]:
        """Return all messages until the end of a stream."""
        return [message async for message in iterate(self.message)]

    async def events(self) -> list[Event]:
        """Return all events until the end of a stream."""
        return [event async for event in iterate(self.event)]

    async def result(self) -> Any:
        """Return the response, whichever way it comes."""
        if self.headers.get("content-type") == "application/json":
            return await self.json()
        return (await self.messages())[-1]


async def iterate(function: Any) -> AsyncIterator[Any]:
    while (item := await function()) is not None:
        yield item


class Client:
    """One connection."""

    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site = site
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read(self) -> Reply:
        """Read the head of a response."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        pairs = [line.split(": ", 1) for line in lines]
        return Reply(self, int(first.split(" ")[1]), [(name.lower(), value) for name, value in pairs])

    async def request(self, method: str, headers: Any = (), body: bytes | None = None, path: str = "/mcp") -> Reply:
        await self.send(head(method, path, self._site.host, headers, body) + (body or b""))
        return await self.read()

    async def closed(self) -> None:
        """Wait for the server to close the connection."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                assert await self.reader.read(1) == b""

    def close(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()


def head(method: str, path: str, host: str, headers: Any, body: bytes | None) -> bytes:
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", host))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Site:
    """Where a server can be reached, with what a client sends it most."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self._clients: list[Client] = []

    async def connect(self, address: str = "127.0.0.1") -> Client:
        """Connect from an address of this machine."""
        streams = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24, local_addr=(address, 0))
        client = Client(self, *streams)
        self._clients.append(client)
        return client

    async def request(self, method: str, headers: Any = (), body: bytes | None = None, path: str = "/mcp") -> Reply:
        """Send a request on a connection of its own."""
        return await (await self.connect()).request(method, headers, body, path)

    async def post(self, message: Any, headers: Any = (), client: Client | None = None, path: str = "/mcp") -> Reply:
        """POST a message, or bytes, as a client does; a header whose value is None is left out."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        usual = {"Content-Type": "application/json", "Accept": BOTH}
        return await (client or await self.connect()).request("POST", {**usual, **dict(headers)}, body, path)

    async def ask(self, method: str, headers: Any = (), id: Any = 1, **params: Any) -> Reply:
        """Send a stateless request with its headers."""
        return await self.post(modern(method, id, **params), {**modern_headers(method, **params), **dict(headers)})

    async def call(self, tool: str, headers: Any = (), id: Any = 1, **arguments: Any) -> Reply:
        return await self.ask("tools/call", headers, id, name=tool, arguments=arguments)

    async def listen(self, *uris: str, id: Any = 1, **wanted: Any) -> Reply:
        """Open a listen stream and take its acknowledgement."""
        wanted = {**wanted, "resourceSubscriptions": list(uris)} if uris else wanted
        reply = await self.ask("subscriptions/listen", id=id, notifications=wanted)
        assert (await reply.message())["method"] == "notifications/subscriptions/acknowledged"
        return reply

    async def open(self, revision: str = "2025-11-25", address: str = "127.0.0.1") -> Session:
        """Shake hands."""
        reply = await self.post(initialize(revision), client=await self.connect(address))
        assert (await reply.json())["result"]["protocolVersion"] == revision
        session = Session(self, reply.headers["mcp-session-id"], revision)
        assert (await session.post(note("notifications/initialized"))).status == 202
        return session

    def close(self) -> None:
        for client in self._clients:
            client.close()


def modern(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return request(id, method, {**params, "_meta": {**STATELESS, **params.get("_meta", {})}})


def modern_headers(method: str, **params: Any) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "uri" in params or "name" in params:
        headers["Mcp-Name"] = params.get("uri") or params["name"]
    return headers


class Session:
    """A client with a session."""

    def __init__(self, site: Site, id: str, revision: str) -> None:
        self.site = site
        self.id = id
        self.headers = {"Mcp-Session-Id": id, "MCP-Protocol-Version": revision}

    async def post(self, message: Any, headers: Any = ()) -> Reply:
        return await self.site.post(message, {**self.headers, **dict(headers)})

    async def call(self, tool: str, id: Any = 1, headers: Any = (), **arguments: Any) -> Reply:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}
        return await self.post(request(id, "tools/call", params), headers)

    async def events_of(self, tool: str, address: str = "127.0.0.1", **arguments: Any) -> list[Event]:
        """Call a tool and return the events of its answer, all of them read."""
        message = request(1, "tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}})
        return await (await self.site.post(message, self.headers, await self.site.connect(address))).events()

    async def get(self, last_event_id: str | None = None, headers: Any = ()) -> Reply:
        return await self.site.request(
            "GET",
            {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": last_event_id, **dict(headers)},
        )

    async def delete(self) -> Reply:
        return await self.site.request("DELETE", self.headers)

    async def subscribe(self, uri: str) -> None:
        reply = await self.post(request("subscribe", "resources/subscribe", {"uri": uri}))
        assert (await reply.json())["result"] == {}


@contextlib.asynccontextmanager
async def serving(endpoint: Any, *, http: str = "httptools", host: str = "127.0.0.1", root_path: str = "") -> Any:
    """Serve an ASGI application; what its server logs as an error fails the test."""
    config = uvicorn.Config(endpoint, http=http, log_config=None, access_log=False, ws="none", root_path=root_path)
    config.load()
    state = ServerState()
    errors: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("uvicorn.error").addHandler(handler)
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, backlog=2048)
    server = await loop.create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), sock=listener
    )
    site = Site(listener.getsockname()[1])
    try:
        yield site
    finally:
        server.close()
        site.close()
        if hasattr(endpoint, "stop"):
            await endpoint.stop()
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=PATIENCE)
        logging.getLogger("uvicorn.error").removeHandler(handler)
    assert errors == []
