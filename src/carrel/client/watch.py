"""Watches: change notifications over ``subscriptions/listen``, or ``resources/subscribe`` in revisions with sessions.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal, TypeAlias, cast
from weakref import WeakKeyDictionary

import msgspec

from carrel.client.connection import ClientConnection
from carrel.client.retry import Retries
from carrel.client.session import ClientSession
from carrel.errors import (
    AuthorizationError,
    ConfigError,
    MCPError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from carrel.protocol.client import ServerNotification
from carrel.protocol.methods import LIST_CAPABILITIES, LISTEN, SUBSCRIBE, UNSUBSCRIBE, ListName
from carrel.wire.resources import ListenParams, SubscribeParams, SubscriptionFilter

__all__ = ["ChangeKind", "Watch", "WatchEvent"]

ChangeKind: TypeAlias = Literal["resource", "resources", "tools", "prompts", "missed"]

#: Maximum number of queued changes. If there are more, they are replaced by a single "missed".
MAX_WAITING = 10_000
#: Maximum number of concurrent ``resources/subscribe`` requests.
AT_ONCE = 100
#: Number of watches of each subscribed resource, by connection.
HELD: WeakKeyDictionary[ClientConnection, dict[str, int]] = WeakKeyDictionary()
#: Maximum backoff between attempts to listen again, in seconds.
LONGEST_PAUSE = 30.0


class WatchEvent(msgspec.Struct, frozen=True):
    """Change of a resource or a list.

    "resource": the resource at ``uri`` changed (which may be within a watched resource); "resources", "tools",
    "prompts": that list changed; "missed": anything watched may have changed, as notifications were lost.
    """

    kind: ChangeKind
    uri: str | None = None


class Watch:
    """Subscription to changes of resources and lists: an async iterator of ``WatchEvent``, and a context manager.

    Changes that were not consumed yet are deduplicated. After a lost connection, the watch reconnects and first yields
    a "missed".
    """

    def __init__(self, session: ClientSession, uris: Sequence[str], lists: Sequence[str]) -> None:
        check(uris, lists)
        self.session = session
        self.uris = tuple(dict.fromkeys(uris))
        self.lists = frozenset(lists)
        self.refused: tuple[str, ...] = ()
        """URIs and names of lists whose subscription the server rejected."""
        self._inside = tuple(uri.rstrip("/") + "/" for uri in self.uris)
        self._known = frozenset(self.uris)
        self._changes: dict[WatchEvent, None] = {}
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._ready: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Watch:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        return self

    async def __anext__(self) -> WatchEvent:
        if self._ready is None and not self._changes:
            raise ConfigError("The watch is not open yet: iterate within `async with client.watch(…) as changes:`")
        while not self._changes:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        change = next(iter(self._changes))
        del self._changes[change]
        return change

    async def start(self) -> None:
        """Start listening; return once the server has acknowledged the subscription.

        Raises:
            MethodNotFound: the server does not support subscriptions.
            PeerError: the server returned an error response.
            ProtocolError: the server ends the subscription without acknowledging it.
            TransportError: the connection was lost.
        """
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self.session.watches.add(self)
        try:
            async with asyncio.timeout(self.session.timeout):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise RequestTimeout(
                f"the server did not acknowledge the subscription within {self.session.timeout:g} seconds"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening, and end the iteration."""
        self._closed = True
        self.session.watches.discard(self)
        self._news.set()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
        if self._ready is not None and not self._ready.done():
            self._ready.cancel()

    # Notifications

    def put(self, change: WatchEvent) -> None:
        """Queue a change."""
        if change.kind == "missed" or len(self._changes) >= MAX_WAITING:
            self._changes.clear()
            change = WatchEvent("missed")
        self._changes[change] = None
        self._news.set()

    def take_notice(self, notice: ServerNotification) -> None:
        """Queue the change of a notification, if it concerns a watched resource or list."""
        kind = LIST_CAPABILITIES.get(cast("ListName", notice.event))
        if kind is not None:
            if kind in self.lists:
                self.put(WatchEvent(kind))
        elif notice.event == "resource_updated":
            uri: str = notice.params.uri
            if uri in self._known or uri.startswith(self._inside):
                self.put(WatchEvent("resource", uri))
        elif notice.event == "subscription_acknowledged":
            self._acknowledge(notice.params.notifications)

    def miss(self) -> None:
        """Record that notifications may have been missed."""
        if self._ready is not None and self._ready.done():
            self.put(WatchEvent("missed"))

    def _acknowledge(self, agreed: SubscriptionFilter) -> None:
        agreed_uris = set(agreed.resource_subscriptions or ())
        lists = [kind for event, kind in LIST_CAPABILITIES.items() if getattr(agreed, event) is True]
        self._agree([uri for uri in self.uris if uri not in agreed_uris] + sorted(self.lists.difference(lists)))

    def _agree(self, refused: Sequence[str]) -> None:
        self.refused = tuple(refused)
        if self._ready is not None:
            if self._ready.done():
                self.put(WatchEvent("missed"))
            else:
                self._ready.set_result(None)

    # Listening

    async def _run(self) -> None:
        pause = 0.0
        while True:
            assert self._ready is not None
            began = asyncio.get_running_loop().time()
            try:
                connection = await self.session.connect()
                await (self._listen(connection) if self.session.stateless else self._subscribe(connection))
            except (AuthorizationError, ConfigError, PeerError, ProtocolError) as error:
                self._fail(error)
                return
            except MCPError as error:
                if not self._ready.done():
                    self._fail(error)
                    return
            if self._closed:  # a task group that failed has kept the cancellation from this task
                return
            # The connection was lost, or the server has ended the stream.
            self.session.broken()
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                pause = 0.0
            await asyncio.sleep(Retries.jitter(pause))
            pause = min(LONGEST_PAUSE, pause * 2 or 0.2)

    def _fail(self, error: MCPError) -> None:
        assert self._ready is not None
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # mark the exception as retrieved
        self._error = error
        self._news.set()

    async def _listen(self, connection: ClientConnection) -> None:
        """Send ``subscriptions/listen`` and keep the long-lived stream open until the server ends it.

        Raises:
            ProtocolError: the server ends the stream without acknowledging it; retrying would fail in the same way.
        """
        wanted = SubscriptionFilter(resource_subscriptions=list(self.uris) or None)
        for event, kind in LIST_CAPABILITIES.items():
            if kind in self.lists:
                setattr(wanted, event, True)
        await connection.call(
            LISTEN, ListenParams(notifications=wanted), timeout=None, subscriber=_WatchSubscriber(self)
        )
        if self._ready is not None and not self._ready.done():
            raise ProtocolError("the server ended the subscription without acknowledging it")

    async def _subscribe(self, connection: ClientConnection) -> None:
        """Send ``resources/subscribe`` for every resource, wait until the connection is lost, and unsubscribe."""
        offered = self.session.capabilities.resources
        if self.uris and (offered is None or offered.subscribe is not True):
            raise MethodNotFound("The server does not offer subscriptions to resources")
        refused = [name for name in self.lists if not self.session.server.reports_changes(name)]
        uris = iter(self.uris)

        async def subscribe() -> None:
            for uri in uris:
                try:
                    if hold(connection, uri):
                        await connection.call(SUBSCRIBE, SubscribeParams(uri=uri), timeout=self.session.timeout)
                except PeerError:
                    release(connection, uri)
                    refused.append(uri)

        held = self.uris
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, len(held))):
                    group.create_task(subscribe())
        except* MCPError as errors:
            raise errors.exceptions[0] from None
        try:
            if held and len([uri for uri in refused if uri in self._known]) == len(held) and not self.lists:
                raise PeerError(-32602, "The server rejected all subscriptions")
            self._agree(refused)
            await self.session.gone(connection)
        finally:
            for uri in held:
                if uri not in refused and release(connection, uri) and connection.error is None:
                    connection.spawn(
                        connection.call(UNSUBSCRIBE, SubscribeParams(uri=uri), timeout=self.session.timeout)
                    )
        raise TransportError("the connection was lost")


def hold(connection: ClientConnection, uri: str) -> bool:
    """Add a watch to the subscription of a resource on a connection; return whether it is the first."""
    held = HELD.setdefault(connection, {})
    held[uri] = count = held.get(uri, 0) + 1
    return count == 1


def release(connection: ClientConnection, uri: str) -> bool:
    """Remove a watch from the subscription of a resource; return whether it was the last."""
    held = HELD.get(connection, {})
    if uri not in held:
        return False
    held[uri] -= 1
    if held[uri]:
        return False
    del held[uri]
    return True


def check(uris: Sequence[str], lists: Sequence[str]) -> None:
    """Validate the URIs and list names of a watch.

    Raises:
        ConfigError: a URI is not a string, or there is no such list.
    """
    for uri in uris:
        if not isinstance(uri, str):
            raise ConfigError(
                f"Pass each URI as a separate argument, as in client.watch(*uris), not a {type(uri).__name__}"
            )
    unknown = sorted(set(lists).difference(LIST_CAPABILITIES.values()))
    if unknown:
        raise ConfigError(
            f"lists: unknown: {', '.join(unknown)}; they are {', '.join(sorted(LIST_CAPABILITIES.values()))}"
        )


class _WatchSubscriber:
    """Subscriber of one listen request that forwards notifications to its watch and to the client's cache."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def take_notice(self, notice: ServerNotification) -> None:
        self._watch.take_notice(notice)
        self._watch.session.notify(notice)
