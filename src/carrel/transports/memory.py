"""In-memory transport: a client and a server in one process, for tests and for embedding.

async with memory.connect(app) as peer:
    reply = await peer.request("resources/read", {"uri": "memo://1"})
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec

from carrel.errors import ConfigError, TransportError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.methods import INITIALIZED
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST, REVISIONS
from carrel.transports.client.transport import Receiver
from carrel.transports.server.application import Application, HasEndpoint
from carrel.transports.server.dispatcher import Dispatcher
from carrel.wire.base import Id

__all__ = ["MemoryPeer", "MemoryTransport", "connect"]


class MemoryPeer:
    """In-memory client that sends raw messages and returns responses and notifications as dicts."""

    def __init__(self, app: HasEndpoint, revision: str) -> None:
        self._ids = 0
        self._waiting: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._notifications: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._stateless = REVISIONS[revision].stateless
        self.revision = revision
        self.capabilities: dict[str, Any] = {}
        self.dispatcher = Dispatcher(app.endpoint, self)

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Receive a message from the server."""
        self._take(msgspec.json.decode(message))

    async def drain(self) -> None:
        """Yield to the event loop. Messages are delivered at once, so there is no backpressure."""
        await asyncio.sleep(0)

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: there is no connection to close."""

    def _take(self, message: Any) -> None:
        if isinstance(message, list):
            for item in message:
                self._take(item)
        elif "method" in message:
            self._notifications.put_nowait(message)
        else:
            waiting = self._waiting.pop(message.get("id"), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    def leave(self) -> None:
        """Fail all pending requests: the connection is closed."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(TransportError("the connection was closed before a response was received"))
                waiting.exception()  # mark as retrieved, so that asyncio does not log it

    def start(
        self, method: str, params: dict[str, Any] | None = None, id: Any = None
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a request and return a future of its response. In a stateless revision, ``_meta`` is filled in."""
        if id is None:
            self._ids += 1
            id = self._ids
        params = dict(params or {})
        if self._stateless:
            meta = {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": {"name": "memory", "version": "0"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
            params["_meta"] = meta | params.get("_meta", {})
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = future
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.feed(msgspec.json.encode(message))
        return future

    def feed(self, data: bytes) -> None:
        """Send raw bytes to the server, without validation."""
        reply = self.dispatcher.receive(data)
        if reply is not None:
            self.send(reply)

    async def request(self, method: str, params: dict[str, Any] | None = None, timeout: float = 10) -> dict[str, Any]:
        """Send a request and return the response: a dict with ``result`` or ``error``.

        Raises:
            TransportError: there was no response within ``timeout`` seconds.
        """
        try:
            return await asyncio.wait_for(self.start(method, params), timeout)
        except TimeoutError:
            raise TransportError(f"no answer to {method} within {timeout} seconds") from None

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        self.feed(msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    async def notification(self, timeout: float = 10) -> dict[str, Any]:
        """Return the next notification or request from the server.

        Raises:
            TransportError: there was none within ``timeout`` seconds.
        """
        try:
            return await asyncio.wait_for(self._notifications.get(), timeout)
        except TimeoutError:
            raise TransportError(f"no notification within {timeout} seconds") from None


class MemoryTransport:
    """In-memory client transport to a server in the same process. Implements ``transport.Transport``."""

    cancels = False
    held = False
    mirrors = False
    streams = False

    def __init__(self, app: HasEndpoint) -> None:
        self._app = app.endpoint
        self._receiver: Receiver | None = None
        self._dispatcher: Dispatcher | None = None

    async def open(self, receiver: Receiver) -> None:
        """Start the server and connect to it."""
        self._receiver = receiver
        await RunningApplication.enter(self._app)
        self._dispatcher = Dispatcher(self._app, _Ear(receiver))

    def send(self, message: OutgoingMessage) -> None:
        """Deliver a message to the server."""
        if self._dispatcher is not None and self._receiver is not None:
            reply = self._dispatcher.receive(message.data)
            if reply is not None:
                self._receiver.receive(reply)

    def abandon(self, id: Id) -> None:
        """Do nothing: a request holds no resources here."""

    def settle(self, revision: Revision) -> None:
        """Do nothing: the revision changes nothing here."""

    async def close(self) -> None:
        """Disconnect, and stop the server if this was its last client."""
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            try:
                await dispatcher.close()
            finally:
                await RunningApplication.leave(self._app)


class RunningApplication:
    """Reference-counted application shared by clients of one event loop: it runs until the last one disconnects."""

    known: ClassVar[dict[int, RunningApplication]] = {}

    def __init__(self, app: Application) -> None:
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.running = False
        self.changing = asyncio.Lock()

    @classmethod
    async def enter(cls, app: Application) -> None:
        """Add a client, and start the application for the first one.

        Raises:
            ConfigError: the application runs in another event loop.
        """
        visited = cls.known.get(id(app))
        if visited is None:
            visited = cls.known[id(app)] = cls(app)
        elif visited.loop is not asyncio.get_running_loop():
            raise ConfigError("the server is running already, in another event loop")
        visited.users += 1
        try:
            async with visited.changing:
                if not visited.running:
                    await app.start()
                    visited.running = True
        except BaseException:
            visited.users -= 1
            visited.forget()
            raise

    @classmethod
    async def leave(cls, app: Application) -> None:
        """Remove a client, and stop the application after the last one."""
        visited = cls.known[id(app)]
        visited.users -= 1
        async with visited.changing:
            try:
                if visited.users == 0:
                    visited.running = False
                    await app.stop()
            finally:
                visited.forget()

    def forget(self) -> None:
        """Remove the application from the registry if it has no clients."""
        if self.users == 0:
            self.known.pop(id(self.app), None)


class _Ear:
    """Channel on which the server of a ``MemoryTransport`` sends to its client."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Receive a message from the server."""
        self._receiver.receive(message)

    async def drain(self) -> None:
        """Yield to the event loop. Messages are delivered at once, so there is no backpressure."""
        await asyncio.sleep(0)

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: there is no connection to close."""


@asynccontextmanager
async def connect(app: HasEndpoint, revision: str = LATEST.name, **capabilities: Any) -> AsyncIterator[MemoryPeer]:
    """Start ``app``, connect to it as a client of ``revision``, and stop both at the end.

    The initialize handshake is done, if the revision has one. The client declares ``capabilities``.

    Raises:
        ConfigError: there is no such revision.
    """
    if revision not in REVISIONS:
        raise ConfigError(f"there is no revision {revision!r}; they are {', '.join(REVISIONS)}")
    await app.endpoint.start()
    try:
        peer = MemoryPeer(app, revision)
        peer.capabilities = capabilities
        try:
            if not REVISIONS[revision].stateless:
                client = {"name": "memory", "version": "0"}
                await peer.request(
                    "initialize", {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
                )
                peer.notify(INITIALIZED.method)
            yield peer
        finally:
            await peer.dispatcher.close()
            peer.leave()
    finally:
        await app.endpoint.stop()
