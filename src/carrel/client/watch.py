"""Hearing of changes, in both eras: one listen request, or subscriptions of a session.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from carrel.client.retry import Retries
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
from carrel.protocol.client import Notification
from carrel.wire.resources import ListenParams, SubscribeParams, SubscriptionFilter

if TYPE_CHECKING:
    from carrel.client.connection import ClientConnection
    from carrel.client.session import Session

__all__ = ["Change", "ChangeKind", "Watch"]

ChangeKind: TypeAlias = Literal["resource", "resources", "tools", "prompts", "missed"]

#: Lists, by the notification that says that they have changed.
LISTS: dict[str, ChangeKind] = {
    "prompts_list_changed": "prompts",
    "resources_list_changed": "resources",
    "tools_list_changed": "tools",
}
#: How many changes wait for somebody to look at them, before it is only said that some were missed.
MAX_WAITING = 10_000
#: How many subscriptions are asked for at a time.
AT_ONCE = 100
#: Seconds between attempts to listen again, at most.
LONGEST_PAUSE = 30.0


class Change(msgspec.Struct, frozen=True):
    """What has changed.

    "resource": the resource at ``uri`` (which may be one within a resource that is watched); "resources", "tools",
    "prompts": the list of them; "missed": anything of it may have, as nobody could listen for a while.
    """

    kind: ChangeKind
    uri: str | None = None


class Watch:
    """What has changed since it was last looked at; an async iterator, and a context manager that ends it.

    A change that nobody has looked at yet is there once, however often it happened. After the connection was lost, it
    is made again, and a "missed" comes first.
    """

    def __init__(self, client: Session, uris: Sequence[str], lists: Sequence[str]) -> None:
        check(uris, lists)
        self.client = client
        self.uris = tuple(dict.fromkeys(uris))
        self.lists = frozenset(lists)
        self.refused: tuple[str, ...] = ()
        """What of it the server does not tell: URIs, and names of lists."""
        self._inside = tuple(uri.rstrip("/") + "/" for uri in self.uris)
        self._known = frozenset(self.uris)
        self._changes: dict[Change, None] = {}
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

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        if self._ready is None and not self._changes:
            raise ConfigError("Nobody listens yet: iterate within `async with client.watch(…) as changes:`")
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
        """Begin to listen; returns when the server has agreed to tell.

        Raises:
            MethodNotFound: the server has no subscriptions.
            PeerError: it refuses.
            TransportError: the connection was lost.
        """
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self.client.watches.add(self)
        try:
            async with asyncio.timeout(self.client.timeout):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise RequestTimeout(f"the server did not agree to tell within {self.client.timeout:g} seconds") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening. Whoever waits for a change waits no longer."""
        self._closed = True
        self.client.watches.discard(self)
        self._news.set()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
        if self._ready is not None and not self._ready.done():
            self._ready.cancel()

    # What happens

    def put(self, change: Change) -> None:
        """Take note of a change."""
        if change.kind == "missed" or len(self._changes) >= MAX_WAITING:
            self._changes.clear()
            change = Change("missed")
        self._changes[change] = None
        self._news.set()

    def take_notice(self, notice: Notification) -> None:
        """Take a notification, if it is about something that is watched here."""
        kind = LISTS.get(notice.event)
        if kind is not None:
            if kind in self.lists:
                self.put(Change(kind))
        elif notice.event == "resource_updated":
            uri: str = notice.params.uri
            if uri in self._known or uri.startswith(self._inside):
                self.put(Change("resource", uri))
        elif notice.event == "subscription_acknowledged":
            self._acknowledge(notice.params.notifications)

    def miss(self) -> None:
        """Take note that changes may have been missed."""
        if self._ready is not None and self._ready.done():
            self.put(Change("missed"))

    def _acknowledge(self, agreed: SubscriptionFilter) -> None:
        told = set(() if agreed.resource_subscriptions is UNSET else agreed.resource_subscriptions)
        lists = [kind for event, kind in LISTS.items() if getattr(agreed, event) is True]
        self._agree([uri for uri in self.uris if uri not in told] + sorted(self.lists.difference(lists)))

    def _agree(self, refused: Sequence[str]) -> None:
        self.refused = tuple(refused)
        if self._ready is not None:
            if self._ready.done():
                self.put(Change("missed"))
            else:
                self._ready.set_result(None)

    # Listening

    async def _run(self) -> None:
        pause = 0.0
        while True:
            assert self._ready is not None
            began = asyncio.get_running_loop().time()
            try:
                link = await self.client.connect()
                await (self._listen(link) if self.client.stateless else self._subscribe(link))
            except (AuthorizationError, ConfigError, PeerError, ProtocolError) as error:
                self._fail(error)
                return
            except MCPError as error:
                if not self._ready.done():
                    self._fail(error)
                    return
            # The connection is gone, or the server has ended the stream.
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                pause = 0.0
            await asyncio.sleep(Retries.jitter(pause))
            pause = min(LONGEST_PAUSE, pause * 2 or 0.2)

    def _fail(self, error: MCPError) -> None:
        assert self._ready is not None
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # nobody has to look at it
        self._error = error
        self._news.set()

    async def _listen(self, link: ClientConnection) -> None:
        """Hold one listen request open for as long as the server does."""
        wanted = SubscriptionFilter(resource_subscriptions=list(self.uris) or UNSET)
        for event, kind in LISTS.items():
            if kind in self.lists:
                setattr(wanted, event, True)
        await link.call("listen", ListenParams(notifications=wanted), timeout=None, subscriber=_Ear(self))

    async def _subscribe(self, link: ClientConnection) -> None:
        """Subscribe to every resource, and wait until the connection is gone."""
        offered = self.client.capabilities.resources
        if self.uris and (offered is UNSET or offered.subscribe is not True):
            raise MethodNotFound("The server does not offer subscriptions to resources")
        refused = [name for name in self.lists if not self.client.announces(name)]
        uris = iter(self.uris)

        async def subscribe() -> None:
            for uri in uris:
                try:
                    if self.client.hold(uri):
                        await link.call("subscribe", SubscribeParams(uri=uri), timeout=self.client.timeout)
                except PeerError:
                    self.client.release(link, uri)
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
                raise PeerError(-32602, "The server refuses every one of the subscriptions")
            self._agree(refused)
            await self.client.gone(link)
        finally:
            for uri in held:
                if uri not in refused and self.client.release(link, uri) and link.error is None:
                    link.spawn(link.call("unsubscribe", SubscribeParams(uri=uri), timeout=self.client.timeout))
        raise TransportError("the connection was lost")


def check(uris: Sequence[str], lists: Sequence[str]) -> None:
    """Check what somebody wants to hear of.

    Raises:
        ConfigError: it is nothing that can be heard of.
    """
    for uri in uris:
        if not isinstance(uri, str):
            raise ConfigError(
                f"Each URI is an argument of its own, as in client.watch(*uris), and not a {type(uri).__name__}"
            )
    unknown = sorted(set(lists).difference(LISTS.values()))
    if unknown:
        raise ConfigError(f"lists: there is none of {', '.join(unknown)}; they are {', '.join(sorted(LISTS.values()))}")


class _Ear:
    """Hears what belongs to one listen request, and tells the client as well, which may have cached what changed."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def take_notice(self, notice: Notification) -> None:
        self._watch.take_notice(notice)
        self._watch.client.changed(notice)
