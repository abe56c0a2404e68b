"""A client of HTTP+SSE made of sockets: it says what it is told to, and reads only when it is told to."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Listening", "Response", "exchange", "listening"]

#: Seconds that anything may take.
PATIENCE = 60.0
#: Bytes that a client which does not read takes nevertheless.
BUFFER = 65536


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


class Connection:
    """One connection, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read_head(self) -> Response:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.partition(": ")[::2] for line in head[1:] if line]
        return Response(int(head[0].split()[1]), {name.lower(): value for name, value in pairs})

    async def read_body(self, response: Response) -> bytes:
        if response.headers.get("transfer-encoding") == "chunked":
            pieces = []
            while piece := await self.read_chunk():
                pieces.append(piece)
            return b"".join(pieces)
        return await self.reader.readexactly(int(response.headers.get("content-length", "0")))

    async def read_chunk(self) -> bytes:
        """Return the next chunk; nothing at the end, and where the connection is cut."""
        size = await self.reader.readline()
        if not size:
            return b""
        data = await self.reader.readexactly(int(size, 16))
        await self.reader.readexactly(2)
        return data


@asynccontextmanager
async def connected(origin: str) -> AsyncIterator[Connection]:
    host, _, port = origin.removeprefix("http://").rpartition(":")
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=plain, limit=BUFFER)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:  # the server may have closed it the hard way
            pass


def request(origin: str, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"Host: {origin.removeprefix('http://')}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


async def exchange(
    origin: str, method: str, path: str, *headers: tuple[str, str], body: bytes | None = None
) -> Response:
    """Send one request on a connection of its own, and return the response."""
    async with asyncio.timeout(PATIENCE), connected(origin) as connection:
        connection.writer.write(request(origin, method, path, headers, body))
        response = await connection.read_head()
        if method != "HEAD":
            response.body = await connection.read_body(response)
        return response


class Listening:
    """An open stream, and the way to post."""

    def __init__(self, origin: str, connection: Connection, response: Response) -> None:
        self.origin = origin
        self.response = response
        self.endpoint = ""
        self.heard: list[dict[str, Any]] = []
        """What came while something else was waited for."""
        self.given_up = False
        """The stream may end within an event."""
        self._connection = connection
        self._rest = b""

    async def read_event(self) -> tuple[str, str] | None:
        """Return the type and the data of the next event, a comment as ("comment", ""); None at the end."""
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._rest.replace(b"\r\n", b"\n"):
                chunks = []
                while b"\n" not in (chunk := await self._connection.read_chunk()) and chunk:
                    chunks.append(chunk)
                if not chunk:
                    assert not self._rest or self.given_up, f"the last event has no end: {self._rest[:1000]!r}"
                    return None
                self._rest += b"".join([*chunks, chunk])
        text, _, self._rest = self._rest.replace(b"\r\n", b"\n").partition(b"\n\n")
        if text.startswith(b":"):
            return "comment", ""
        fields = dict(line.partition(": ")[::2] for line in text.decode().split("\n"))
        assert set(fields) == {"event", "data"}, text
        return fields["event"], fields["data"]

    async def read(self) -> Any:
        """Return the next message; None at the end."""
        while (event := await self.read_event()) is not None:
            if event[0] != "comment":
                assert event[0] == "message"
                return json.loads(event[1])
        return None

    async def post(self, message: Any, *headers: tuple[str, str]) -> Response:
        """Post a message, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await exchange(
            self.origin, "POST", self.endpoint, ("Content-Type", "application/json"), *headers, body=body
        )

    async def send(self, message: Any, *headers: tuple[str, str]) -> None:
        """Post a message that has to be accepted."""
        response = await self.post(message, *headers)
        assert (response.status, response.body) == (202, b""), response

    async def answer_to(self, id: Any) -> Any:
        """Return the response to a request; what comes before it is in ``heard``."""
        while (message := await self.read()) is not None:
            if "method" not in message and message.get("id") == id:
                return message
            self.heard.append(message)
        raise AssertionError(f"the stream ended before the answer to {id!r}")

    async def ask(self, message: dict[str, Any]) -> Any:
        """Send a request and return its response."""
        await self.send(message)
        return await self.answer_to(message["id"])

    async def open(self, revision: str = "2024-11-05", **capabilities: Any) -> dict[str, Any]:
        """Shake hands."""
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.ask({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params})
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        result: dict[str, Any] = answer["result"]
        return result


@asynccontextmanager
async def listening(origin: str, *headers: tuple[str, str], path: str = "/sse") -> AsyncIterator[Listening]:
    """Open a stream and read its first event, unless there is none; at the end hang up."""
    async with connected(origin) as connection:
        connection.writer.write(request(origin, "GET", path, headers or [("Accept", "text/event-stream")], None))
        response = await asyncio.wait_for(connection.read_head(), PATIENCE)
        client = Listening(origin, connection, response)
        if response.status == 200:
            event = await client.read_event()
            assert event is not None
            assert event[0] == "endpoint"
            client.endpoint = event[1]
        else:
            response.body = await connection.read_body(response)
        yield client
