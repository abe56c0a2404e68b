"""Reconnector: keeps a client connected to a remote server, and reconnects with exponential backoff."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Literal, TypeAlias

import msgspec

from carrel.client.client import Client
from carrel.client.connection import ClientConnection
from carrel.client.retry import Retries
from carrel.client.watch import ChangeKind, Watch
from carrel.errors import (
    MCPError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from carrel.host.debounce import Debouncer
from carrel.log import Log
from carrel.protocol.methods import LIST_CAPABILITIES, ListCapability

__all__ = ["LISTED", "Reconnector", "Status", "StatusName"]

log = Log("carrel.host")

StatusName: TypeAlias = Literal["new", "connecting", "ready", "failed", "closed"]
#: Lists of a server to watch for changes.
LISTED: tuple[ListCapability, ...] = tuple(LIST_CAPABILITIES.values())
#: Seconds between attempts to connect: first and maximum pause.
PAUSES = (0.5, 30.0)
#: Timeout in seconds of the ping that checks the connection.
PING_PATIENCE = 10.0


class Status(msgspec.Struct, frozen=True):
    """Status of a connection; if it has failed, the reason, and the event loop time of the next attempt."""

    name: StatusName = "new"
    reason: Exception | None = None
    retry_at: float | None = None


class Reconnector:
    """Keeps a client connected, with a task that runs between ``begin`` and ``end``.

    Args:
        client: the client to open, which ``end`` closes.
        limit: maximum number of seconds for connecting and reading the lists.
        learn: reads the given lists, after connecting and on list change notifications.
    """

    def __init__(
        self, client: Client, name: str, limit: float, learn: Callable[[Collection[ChangeKind]], Awaitable[None]]
    ) -> None:
        self.client = client
        self.name = name
        self.limit = limit
        self.status = Status()
        self.observers: list[Callable[[Status], None]] = []
        """Callbacks for status changes, called in the event loop."""
        self._learn = learn
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """Start to connect."""
        self._ended = False
        self._set(Status("connecting"))
        self.client.session.doubt = self.check
        self._task = asyncio.ensure_future(self._run())

    async def end(self) -> None:
        """Close the connection."""
        task, self._task = self._task, None
        self._ended = True  # in case a task group fails now and swallows the cancellation
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.client.close()
        self._set(Status("closed"))

    async def settled(self) -> Status:
        """Wait until the current attempt to connect has succeeded or failed, and return the status."""
        while self.status.name in ("new", "connecting"):
            self._changed.clear()
            await self._changed.wait()
        return self.status

    def check(self) -> None:
        """Check the connection with a ping, after a request has failed or a stream was interrupted."""
        if self.status.name == "ready":
            self._wake.set()

    def retry(self) -> None:
        """Reconnect now if the last attempt has failed; ``settled`` waits for the result."""
        if self.status.name == "failed":
            self._set(Status("connecting", self.status.reason))
            self._wake.set()

    def _set(self, status: Status) -> None:
        self.status = status
        self._changed.set()
        for observer in list(self.observers):
            observer(status)

    async def _run(self) -> None:
        pause, longest = PAUSES
        loop = asyncio.get_running_loop()
        session = self.client.session
        session.allow()
        again = False
        expired = float("-inf")
        while not self._ended:
            began = loop.time()
            failure: Exception
            watch: Watch | None = None
            known = session.connection
            try:
                if self.status.name != "ready":
                    self._set(Status("connecting", self.status.reason))
                async with asyncio.timeout(self.limit):
                    connection = await session.connect()
                    if again and connection is known:
                        await self._ping()
                    watch = await self._listen()
                    await self._learn(LISTED)
                self._set(Status("ready"))
                await self._stay(connection, watch)
                continue
            except SessionExpired as error:
                failure = error
                before, expired = expired, loop.time()
                if expired - before > pause:
                    log.info("%s has ended the session; another one is opened", self.name)
                    continue
            except (TimeoutError, RequestTimeout) as error:
                failure = error if isinstance(error, RequestTimeout) else slow(self.limit)
                if again and known is not None and known is session.connection:
                    known.closed(failure)  # second timeout in a row: use a new connection for the next attempt
            except MCPError as error:
                failure = error
            except Exception as error:
                log.exception("%s: keeping the connection has failed", self.name)
                failure = error
            finally:
                if watch is not None:
                    await watch.close()
            if self._ended:
                return
            again = True
            if loop.time() - began > longest:
                pause = PAUSES[0]
            wait = Retries.jitter(pause)
            self._wake.clear()
            self._set(Status("failed", failure, loop.time() + wait))
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                pass
            pause = min(longest, pause * 2)

    async def _listen(self) -> Watch | None:
        """Start to watch the lists before they are read, so that no change is missed. Return None if not supported.

        Raises:
            MCPError: the server does not respond.
        """
        watch = self.client.watch(lists=LISTED)
        try:
            await watch.start()
        except BaseException as error:
            await watch.close()
            if not isinstance(error, ProtocolError | PeerError):
                raise
            log.debug("%s: its lists are not watched: %s", self.name, error)
            return None
        return watch

    async def _stay(self, connection: ClientConnection, watch: Watch | None) -> None:
        """Watch the lists until the connection is lost.

        Raises:
            MCPError: the connection is lost, or the server no longer responds.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_gone(connection))
                group.create_task(self._probe())
                if watch is not None:
                    group.create_task(self._follow(watch))
        except* MCPError as errors:
            raise errors.exceptions[0] from None

    async def _until_gone(self, connection: ClientConnection) -> None:
        await self.client.session.gone(connection)
        raise connection.error or TransportError("the connection was lost")

    async def _probe(self) -> None:
        """Ping the server whenever a request has failed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._ping()

    async def _ping(self) -> None:
        try:
            await self.client.ping(timeout=PING_PATIENCE)
        except (MethodNotFound, PeerError):
            pass  # an error response also shows that the server responds

    async def _follow(self, watch: Watch) -> None:
        debouncer: Debouncer[ChangeKind] = Debouncer()

        async def learn() -> None:
            while True:
                kinds = await debouncer.take()
                try:
                    async with asyncio.timeout(self.limit):
                        await self._learn(kinds)
                except TimeoutError:
                    raise slow(self.limit) from None
                debouncer.done(kinds)

        learning = asyncio.ensure_future(learn())
        following = asyncio.ensure_future(self._take(watch, debouncer))
        try:
            await asyncio.wait((learning, following), return_when=asyncio.FIRST_COMPLETED)
            (learning if learning.done() else following).result()
        finally:
            learning.cancel()
            following.cancel()
            await asyncio.gather(learning, following, return_exceptions=True)

    @staticmethod
    async def _take(watch: Watch, debouncer: Debouncer[ChangeKind]) -> None:
        async for change in watch:
            debouncer.put(LISTED if change.kind == "missed" else (change.kind,))


def slow(limit: float) -> TransportError:
    return TransportError(f"it is not ready after {limit:g} seconds")
