"""Server requests to the client: each is handled by a task, with a limit on concurrent requests.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

from carrel.client.causes import NO_CAUSE, Causes
from carrel.client.handlers import ClientCall
from carrel.errors import INTERNAL_ERROR, MCPError, PeerError, ProtocolError, TransportError
from carrel.log import Log
from carrel.protocol.client import ClientProtocol, IncomingRequest, OutgoingMessage
from carrel.transports.client.transport import Transport
from carrel.wire.base import Id

__all__ = ["IncomingRequests"]

log = Log("carrel.client")

#: Maximum number of concurrent server requests.
MAX_INCOMING = 100
#: Maximum number of unsent responses to server requests. If the server does not read them, the connection is closed.
MAX_UNSENT_ANSWERS = 1000


class Responder(Protocol):
    """Interface of a client that responds to server requests."""

    async def answer(
        self, request: IncomingRequest, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> Any:
        """Return the result of a server request. Exceptions are turned into error responses.

        ``call`` is the call that caused the request, or None if unknown; ``calls`` are the possible calls.
        """


class Link(Protocol):
    """Interface of the connection that receives the server requests."""

    connection: ClientProtocol[Any]
    transport: Transport
    error: MCPError | None
    causes: Causes

    @property
    def owner(self) -> Responder:
        """The client."""

    def leave(self, error: MCPError) -> None:
        """End the connection because of the server's behaviour."""

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[None]:
        """Run an awaitable as a background task."""


class IncomingRequests:
    """Server requests in progress on one connection."""

    def __init__(self, link: Link) -> None:
        self.tasks: dict[Id, asyncio.Task[None]] = {}
        self._link = link
        self._unsent = 0

    def take(
        self, request: IncomingRequest, call: ClientCall[Any] | None = None, calls: tuple[ClientCall[Any], ...] = ()
    ) -> None:
        """Handle a server request. ``call`` caused it; if this is unknown, one of ``calls`` may have."""
        connection = self._link.connection
        if request.operation == "ping":
            self.send(connection.answer(request, {}))
            return
        if len(self.tasks) >= MAX_INCOMING or request.id in self.tasks:
            why = f"Too many requests at a time: at most {MAX_INCOMING}, each with its own id"
            self.send(connection.reject(request, PeerError(INTERNAL_ERROR, why)))
            return
        task = self.tasks[request.id] = asyncio.get_running_loop().create_task(self._answer(request, call, calls))
        task.add_done_callback(lambda _: self.tasks.pop(request.id, None))

    def cancel(self, id: Id) -> bool:
        """Cancel the handling of a server request; return whether it was in progress."""
        task = self.tasks.get(id)
        return task is not None and (task.cancel() or True)

    async def _answer(
        self, request: IncomingRequest, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> None:
        connection = self._link.connection
        try:
            if (call, calls) == NO_CAUSE:
                call, calls = await self._link.causes.of_new_task(request.params)
            message = connection.answer(request, await self._link.owner.answer(request, call, calls))
        except (ProtocolError, PeerError) as error:
            message = connection.reject(request, error)
        except Exception as error:
            log.exception("the answer to a request of the server failed")
            message = connection.reject(request, error)
        sent = self.send(message)
        if sent is not None:
            await sent  # until then, the request counts as in progress

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send a response; return an awaitable if it has to wait. If too many responses wait, close the connection."""
        link = self._link
        full = link.transport.send(message) if link.error is None else None
        if full is None:
            return None
        if self._unsent >= MAX_UNSENT_ANSWERS:
            error = TransportError(
                f"the server sends requests and does not read the answers: more than {MAX_UNSENT_ANSWERS} wait for it "
                "(MAX_UNSENT_ANSWERS)"
            )
            log.warning("%s", error)
            link.leave(error)
            return None
        self._unsent += 1
        return link.spawn(self._wait(full))

    async def _wait(self, full: Awaitable[None]) -> None:
        try:
            await full
        finally:
            self._unsent -= 1
