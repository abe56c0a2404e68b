"""Transport that records every message of a client, and can send additional requests that bypass the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec

from carrel.errors import MCPError, PeerError, TransportError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.transports.client.transport import Receiver, Transport
from carrel.wire.base import Id

__all__ = ["MessageSink", "ProbeResponse", "RecordedMessages", "RecordingTransport"]


class ProbeResponse(msgspec.Struct):
    """Response to a request: its result or its error, neither if there was none, and the seconds that it took."""

    result: Any = None
    error: dict[str, Any] | None = None
    seconds: float = 0.0
    failure: str | None = None
    timed_out: bool = False


class MessageSink(Protocol):
    """Receiver of recorded messages."""

    def add(self, sent: bool, data: bytes) -> None:
        """Record a message; whether it was sent by the client."""


class RecordedMessages(msgspec.Struct):
    """Messages in the order in which they were sent and received, as bytes; whether each was sent by the client."""

    messages: list[tuple[bool, bytes]] = []
    errors: list[str] = []
    """Lines on the standard error of the server."""

    def add(self, sent: bool, data: bytes) -> None:
        """Record a message."""
        self.messages.append((sent, bytes(data)))


class RecordingTransport:
    """Transport around another one. Implements ``Transport`` for the client, and ``Receiver`` for that transport."""

    def __init__(self, transport: Transport, recording: MessageSink) -> None:
        self.cancels = transport.cancels
        self.mirrors = transport.mirrors
        self.streams = transport.streams
        self.inner = transport
        self.recording = recording
        self._receiver: Receiver | None = None
        self._waiting: dict[Id, asyncio.Future[ProbeResponse]] = {}

    @property
    def held(self) -> bool:
        """Whether a request waits for credentials."""
        return self.inner.held

    async def open(self, receiver: Receiver) -> None:
        """Open the connection."""
        self._receiver = receiver
        await self.inner.open(self)

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Record a message and send it."""
        self.recording.add(True, message.data)
        return self.inner.send(message)

    def abandon(self, id: Id) -> None:
        """Release the resources of a request."""
        self.inner.abandon(id)

    def settle(self, revision: Revision) -> None:
        """Record the revision."""
        self.inner.settle(revision)

    async def close(self) -> None:
        """Close the connection."""
        await self.inner.close()

    # Additional requests

    async def ask(self, message: OutgoingMessage, id: Id, timeout: float) -> ProbeResponse:
        """Send a request with the id ``id``, and return the response; there is always one."""
        future: asyncio.Future[ProbeResponse] = asyncio.get_running_loop().create_future()
        self._waiting[id] = future
        started = time.perf_counter()
        try:
            full = self.send(message)
            if full is not None:
                await full
            response = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            response = ProbeResponse(failure=f"no response within {timeout:g} seconds", timed_out=True)
            self.abandon(id)
        finally:
            self._waiting.pop(id, None)
        response.seconds = time.perf_counter() - started
        return response

    def _settle(self, id: Id, response: ProbeResponse) -> bool:
        future = self._waiting.get(id)
        if future is None or future.done():
            return future is not None
        future.set_result(response)
        return True

    # Callbacks of the transport

    def receive(self, data: bytes, about: Id | None = None) -> float | None:
        """Record a message, and pass it on unless it answers an additional request."""
        self.recording.add(False, data)
        if self._waiting:
            try:
                message = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                message = None
            if isinstance(message, dict) and "method" not in message:
                error = message.get("error")
                response = ProbeResponse(message.get("result"), error if isinstance(error, dict) else None)
                if self._settle(self._answered(message), response):
                    return None
        return None if self._receiver is None else self._receiver.receive(data, about)

    def _answered(self, message: dict[str, Any]) -> Any:
        """Return the id of the request that a response belongs to: an error without an id, the only one that waits."""
        id = message.get("id")
        if id is None and "error" in message and len(self._waiting) == 1:
            return next(iter(self._waiting))
        return id if isinstance(id, str | int) else None

    def awaits(self, id: Id) -> bool:
        """Return whether a request still waits for its response."""
        return id in self._waiting or (self._receiver is not None and self._receiver.awaits(id))

    def fail(self, id: Id, error: MCPError) -> None:
        """Fail a request; an error response with an HTTP status is a response."""
        if isinstance(error, PeerError):
            response = ProbeResponse(error={"code": error.code, "message": error.message, "data": error.data})
        else:
            response = ProbeResponse(failure=str(error))
        if not self._settle(id, response) and self._receiver is not None:
            self._receiver.fail(id, error)

    def broken(self) -> None:
        """Pass on that the long-lived stream has broken."""
        if self._receiver is not None:
            self._receiver.broken()

    def interrupted(self) -> None:
        """Pass on that notifications may have been lost."""
        if self._receiver is not None:
            self._receiver.interrupted()

    def closed(self, error: MCPError) -> None:
        """Fail all requests of our own, and pass on that the connection is lost."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(ProbeResponse(failure=str(error).partition("\n")[0]))
        if self._receiver is not None:
            self._receiver.closed(error if isinstance(error, MCPError) else TransportError(str(error)))
