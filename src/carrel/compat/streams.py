"""Streams that transports hand out: objects that only ``Server.run`` and ``ClientSession`` understand.

In ``mcp`` 1.x, a transport is a pair of anyio streams of messages. Here it is a handle on a transport of Carrel, twice.
Streams of messages that a program has made itself work too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Any

from carrel.compat import mcp
from carrel.compat.exchange import http_scope
from carrel.compat.mcp.shared.message import SessionMessage
from carrel.compat.wire import json_of
from carrel.errors import TransportError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.transports.client.transport import Receiver, Transport
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.dispatcher import Dispatcher
from carrel.wire.base import Id

__all__ = ["ClientStream", "ServerStream", "StreamTransport", "close_streams", "flush", "serve_streams"]


class Handle:
    """One end of a transport. It can be closed, which does nothing: the transport is closed by its context manager."""

    async def aclose(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""


class ServerStream(Handle):
    """Transport of a server: ``serve`` serves an application on it until the client is gone."""

    def __init__(self, serve: Callable[[HasEndpoint], Awaitable[None]]) -> None:
        self.serve = serve


class ClientStream(Handle):
    """Transport of a client, which ``open`` makes once the session begins."""

    def __init__(self, open: Callable[[], Transport]) -> None:
        self.open = open
        self.session_id: str | None = None


class _Outbox:
    """Channel that writes messages to a stream of messages, in order."""

    def __init__(self, write: Any, wrap: Callable[[bytes], Any]) -> None:
        self._write = write
        self._wrap = wrap
        self._queue: asyncio.Queue[bytes | asyncio.Future[None] | None] = asyncio.Queue()

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Queue a message."""
        self._queue.put_nowait(message)

    def sent(self) -> asyncio.Future[None]:
        """Return a future for when the messages that are queued are written, or have no reader any more."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(written)
        return written

    async def drain(self) -> None:
        """Let the writer run."""
        await asyncio.sleep(0)

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: there is no connection to close."""

    def close(self) -> None:
        """End the writer after the messages that are queued."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        """Write until it is closed, or it has no reader any more."""
        import anyio

        is_open = True
        while (message := await self._queue.get()) is not None:
            if isinstance(message, asyncio.Future):
                if not message.done():
                    message.set_result(None)
            elif is_open:
                try:
                    await self._write.send(self._wrap(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    is_open = False


def session_message(message: bytes) -> SessionMessage:
    """Return a message as ``mcp`` 1.x has it."""
    return SessionMessage(mcp.types.JSONRPCMessage.model_validate_json(message))


async def serve_streams(
    served: HasEndpoint, read: Any, write: Any, wrap: Callable[[bytes], Any] = session_message
) -> None:
    """Serve an application on a pair of streams of messages, until the first one ends.

    ``wrap`` makes a message for the streams from its encoding.
    """
    outbox, app = _Outbox(write, wrap), served.endpoint
    await app.start()
    try:
        async with write:
            writing = asyncio.create_task(outbox.run())
            dispatcher = Dispatcher(app, outbox)
            try:
                async with read:
                    async for item in read:
                        if isinstance(item, Exception):
                            continue
                        request = getattr(item.metadata, "request_context", None)
                        token = http_scope.set(getattr(request, "scope", None))
                        try:
                            reply = dispatcher.receive(json_of(item.message))
                        finally:
                            http_scope.reset(token)
                        if reply is not None:
                            outbox.send(reply)
            finally:
                await dispatcher.close()
                outbox.close()
                await writing
    finally:
        await app.stop()


class StreamTransport:
    """Client transport over a pair of streams of messages. Implements ``transport.Transport``."""

    cancels = False
    held = False
    mirrors = False
    streams = False

    def __init__(self, read: Any, write: Any, wrap: Callable[[bytes], Any] = session_message) -> None:
        self._read, self._write = read, write
        self._outbox = _Outbox(write, wrap)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, receiver: Receiver) -> None:
        """Begin to read and write."""
        self._tasks = [asyncio.create_task(self._listen(receiver)), asyncio.create_task(self._outbox.run())]

    async def _listen(self, receiver: Receiver) -> None:
        import anyio

        try:
            async for item in self._read:
                if not isinstance(item, Exception):
                    receiver.receive(json_of(item.message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        receiver.closed(TransportError("the stream has ended"))

    def send(self, message: OutgoingMessage) -> None:
        """Queue a message for the server."""
        self._outbox.send(message.data)

    async def flush(self) -> None:
        """Wait until the messages that are queued are written."""
        await self._outbox.sent()

    def abandon(self, id: Id) -> None:
        """Do nothing: a request holds no resources here."""

    def settle(self, revision: Revision) -> None:
        """Do nothing: the revision changes nothing here."""

    async def close(self) -> None:
        """Stop reading and writing."""
        self._outbox.close()
        for task in self._tasks:
            task.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)  # passes on the message of a cancellation, by which anyio knows its own
        finally:
            await close_streams(self._read, self._write)


async def close_streams(*streams: Any) -> None:
    """Close streams, also in a task that is being cancelled."""
    for stream in streams:
        if hasattr(stream, "close"):
            stream.close()
        else:
            await stream.aclose()


async def flush(transport: Transport) -> None:
    """Wait until a transport over streams of messages has written its messages; other transports do so themselves."""
    if isinstance(transport, StreamTransport):
        await transport.flush()
