"""A server over HTTP that does whatever a test wants, byte by byte: the parties that nobody would write on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["Asked", "Scripted", "scripted"]


class Asked:
    """A request, and what may be answered. ``headers`` have lower-case names."""

    def __init__(self, line: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> None:
        self.method, self.target, _ = line.split(" ")
        self.headers = headers
        self.body = body
        self.writer = writer

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> Any:
        return self.message.get("id")

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer with a whole response. Names of headers have ``_`` for ``-``."""
        lines = [
            f"HTTP/1.1 {status} Whatever",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        if "transfer_encoding" not in headers and "content_length" not in headers:
            lines.append(f"content-length: {len(body)}")
        await self.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def answer(self, message: Any, status: int = 200, **headers: str) -> None:
        await self.respond(status, json.dumps(message).encode(), content_type="application/json", **headers)

    async def result(self, result: Any = None, **headers: str) -> None:
        await self.answer({"jsonrpc": "2.0", "id": self.id, "result": result or {}}, **headers)

    async def stream(self, *pieces: bytes, **headers: str) -> None:
        """Begin a stream of events."""
        await self.respond(200, content_type="text/event-stream", transfer_encoding="chunked", **headers)
        for piece in pieces:
            await self.piece(piece)

    async def piece(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, message: Any, id: str = "") -> None:
        head = f"id: {id}\n" if id else ""
        await self.piece(f"{head}event: message\ndata: {json.dumps(message)}\n\n".encode())

    async def end(self) -> None:
        """End the body of a stream."""
        await self.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()


Script: TypeAlias = Callable[[Asked], Awaitable[Any]]


class Scripted:
    """What a scripted server has seen."""

    def __init__(self, script: Script, scheme: str) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.lost = asyncio.Event()
        """Somebody has broken a connection."""
        self.port = 0
        self._script = script
        self._scheme = scheme
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.host}/mcp"

    def by(self, method: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *lines = head.split("\r\n")[:-2]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(line, headers, body, writer)
                self.asked.append(asked)
                await self._script(asked)
                if writer.transport.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost.set()
        except asyncio.CancelledError:
            pass  # asyncio's own streams would log it
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def scripted(script: Script, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Serve by a script, which is called with each request."""
    server = Scripted(script, "http" if tls is None else "https")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port, ssl=tls, limit=1 << 26, backlog=1024)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.stop()
