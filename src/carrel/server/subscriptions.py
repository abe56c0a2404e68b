"""Subscriptions to resources, lists and tasks, and their notifications: one hub for both eras.

``subscriptions/listen`` (2026-07-28) opens an entry with a filter; ``initialize`` opens the entry of a session, and
``resources/subscribe`` edits its filter. A change is encoded once per revision and the bytes fan out.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from carrel.catalog.provider import ListChanges, ListName, UriChanges, uri_changes
from carrel.errors import ServerUnavailable
from carrel.limits import NO_ROOM
from carrel.protocol.channel import ChangeKey, Channel, ConnectedClient
from carrel.protocol.encoding import encode, encode_event
from carrel.protocol.methods import LIST_NOTIFICATIONS
from carrel.protocol.revision import Revision
from carrel.server.audience import Audience
from carrel.wire.base import Id
from carrel.wire.resources import AcknowledgedParams, ResourceUpdatedParams, SubscriptionFilter
from carrel.wire.utilities import CancelledParams

if TYPE_CHECKING:
    from carrel.catalog.access import Gate
    from carrel.catalog.provider import Recipients
    from carrel.protocol.server import ServerProtocol
    from carrel.wire.tasks import DetailedTask

__all__ = ["Hub", "Subscription"]

#: Names of the lists that can change, which are also the names of their events.
LISTS: tuple[ListName, ...] = tuple(LIST_NOTIFICATIONS)

T = TypeVar("T")
Event: TypeAlias = ListName | Literal["resource_updated"]
NO_LISTS: ListChanges = {}
What: TypeAlias = "tuple[Event, str, Recipients | None]"
"""Change: the event, the URI of a resource, and the recipients (None: all clients)."""

#: Maximum number of changed list entries to look up for a notification. If more have changed, all subscribers are
#: notified.
MAX_KEYS = 10_000

#: Bytes of memory that a subscriber, and each resource or task it subscribes to, take besides their texts.
ENTRY_BYTES = 2048
SUBSCRIPTION_BYTES = 512

#: Debounce interval in seconds for repeated changes of a resource or list. The first change is sent at once.
QUIET = 0.05


@cache
def set_of(lists: tuple[str, ...]) -> frozenset[str]:
    """Return a set of lists, the same one for all sessions that listen to them."""
    return frozenset(lists)


class Subscription(msgspec.Struct, eq=False, weakref=True, gc=True):
    """Subscription of one client: its channel, and its filter.

    ``tag`` is the id of its listen request, if it has one; ``farewell`` is the response to that, sent when the server
    ends it. ``uris`` are the resources subscribed to: the normal form of each, and the spelling of the client. ``size``
    is how many bytes count as kept for the client of ``client``, if there is one. ``save`` is called with each URI
    that is added, with its spelling, or removed (None), so that other replicas know of it.
    """

    channel: Channel
    revision: Revision
    lists: frozenset[str] = frozenset()
    uris: dict[str, str] | None = None
    tag: Id | None = None
    tasks: frozenset[str] = frozenset()
    answer: asyncio.Future[Any] | None = None
    farewell: bytes = b""
    client: ConnectedClient | None = None
    size: int = 0
    save: Callable[[str, str | None], None] | None = None
    shows: dict[str, Callable[[], Awaitable[bool]]] | None = None
    """Functions that check whether a resource still exists for the client, by URI, for resources with ``when``.
    """

    def weigh(self, uri: str, spelled: str) -> int:
        """Return the bytes that a subscription to a resource takes, with one notification that waits to be sent."""
        tag = len(self.tag) if isinstance(self.tag, str) else 0
        return SUBSCRIPTION_BYTES + sys.getsizeof(uri) + 2 * sys.getsizeof(spelled) + tag

    def take(self, size: int) -> None:
        """Count bytes as kept for the client.

        Raises:
            ServerUnavailable: the memory budget is used up.
        """
        if self.client is not None and not self.client.take(size):
            raise ServerUnavailable(NO_ROOM)
        self.size += size

    def give(self, size: int) -> None:
        """Release bytes that were counted as kept for the client."""
        if self.client is not None:
            self.client.give(size)
        self.size -= size


class Hub:
    """All subscriptions of a server, and the fan-out of notifications."""

    def __init__(self) -> None:
        self.gate: Gate | None = None
        """Access gate of the server: subscribers are only notified about resources that they may see."""
        self.sessions: dict[ServerProtocol, Subscription] = {}
        """Subscriptions of sessions, until their connections are closed."""
        self._entries: set[Subscription] = set()
        self._by_uri: dict[str, set[Subscription]] = {}
        self._windows: dict[str, set[str]] = {}
        """URIs with a query that have subscribers, by the URI without the query."""
        self._by_task: dict[str, set[Subscription]] = {}
        self._by_list: dict[str, set[Subscription]] = {name: set() for name in LISTS}
        self._pending: dict[What, int] = {}
        """Changes that are not sent yet, each with a position of the bus before it."""
        self._keys: dict[What, set[str] | None] = {}
        """Changed entries of the directories and lists in ``_pending``; None if they are not known."""
        self._timer: asyncio.Handle | None = None
        self._last: dict[What, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def uris(self) -> Collection[str]:
        """The resources that have subscribers."""
        return self._by_uri

    @property
    def unsent_since(self) -> int | None:
        """Position of the bus before the first change that is not sent yet; None if all are sent."""
        return next(iter(self._pending.values()), None)

    def hears(self, list_name: str) -> bool:
        """Return whether a list has subscribers."""
        return bool(self._by_list[list_name])

    def open(self, entry: Subscription) -> None:
        """Add a subscription, which gets notifications from now on.

        Raises:
            ServerUnavailable: the memory budget of its client is used up.
        """
        uris = sum(entry.weigh(uri, spelled) for uri, spelled in entry.uris.items()) if entry.uris else 0
        entry.take(ENTRY_BYTES + uris + SUBSCRIPTION_BYTES * len(entry.tasks) + 4 * len(entry.farewell))
        self._entries.add(entry)
        for name in entry.lists:
            self._by_list[name].add(entry)
        for uri in entry.uris or ():
            self._index(uri, entry)
        for id in entry.tasks:
            self._by_task.setdefault(id, set()).add(entry)

    def close(self, entry: Subscription) -> None:
        """Remove a subscription. Closing twice does no harm."""
        self._entries.discard(entry)
        entry.give(entry.size)
        for name in entry.lists:
            self._by_list[name].discard(entry)
        for uri in entry.uris or ():
            self._forget_uri(uri, entry)
        for id in entry.tasks:
            forget(self._by_task, id, entry)

    def _index(self, uri: str, entry: Subscription) -> None:
        self._by_uri.setdefault(uri, set()).add(entry)
        whole, query, _ = uri.partition("?")
        if query:
            self._windows.setdefault(whole, set()).add(uri)

    def _forget_uri(self, uri: str, entry: Subscription) -> None:
        forget(self._by_uri, uri, entry)
        if "?" in uri and uri not in self._by_uri:
            forget(self._windows, uri.partition("?")[0], uri)

    def touched(self, uris: Iterable[str] | UriChanges) -> dict[str, Collection[str] | None]:
        """Return the URIs with subscribers that are affected by changes of resources, each with its changed entries.

        A URI with a query shows a part of a resource or another form of it, and so changes with the resource.
        """
        found: dict[str, Collection[str] | None] = {}
        for uri, entries in uri_changes(uris).items():
            if uri in self._by_uri:
                found[uri] = entries
            if uri in self._windows:
                found |= dict.fromkeys(self._windows[uri], entries)
        return found

    def subscribe(self, entry: Subscription, uri: str, spelled: str) -> None:
        """Add a resource to the subscription of a session. Notifications name it as it is ``spelled``.

        Raises:
            ServerUnavailable: the memory budget of its client is used up.
        """
        if entry.uris is None:
            entry.uris = {}
        size = entry.weigh(uri, spelled)
        if uri in entry.uris:
            size -= entry.weigh(uri, entry.uris[uri])
        entry.take(size)
        entry.uris[uri] = spelled
        self._index(uri, entry)
        if entry.save is not None:
            entry.save(uri, spelled)

    def unsubscribe(self, entry: Subscription, uri: str) -> None:
        """Remove a resource from a subscription; one that was never there is no error."""
        if entry.uris is not None and uri in entry.uris:
            entry.give(entry.weigh(uri, entry.uris.pop(uri)))
            if entry.shows is not None:
                entry.shows.pop(uri, None)
            self._forget_uri(uri, entry)
            if entry.save is not None:
                entry.save(uri, None)

    def shut(self) -> None:
        """End every listen request gracefully, after sending the pending notifications."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        for task in self._asking:
            task.cancel()
        for entry in list(self._entries):
            if entry.answer is not None and entry.tag is not None and not entry.answer.done():
                ending = CancelledParams(request_id=entry.tag, reason="the server ends this subscription")
                entry.channel.send(encode_event(entry.revision, "cancelled", ending))
                entry.answer.set_result(entry.farewell)

    # Notifications

    def uris_of(self, recipients: Recipients) -> set[str]:
        """Return the resources to which some clients have subscribed."""
        return {
            uri
            for entry in self._entries
            if entry.client is not None and recipients.include(entry.client)
            for uri in entry.uris or ()
        }

    def changed(
        self,
        uris: Iterable[str] | UriChanges = (),
        lists: ListChanges = NO_LISTS,
        since: int = 0,
        recipients: Recipients | None = None,
    ) -> None:
        """Schedule notifications of changed resources or lists. Must run on the event loop of the server.

        They are debounced: sent in the next iteration of the loop, but at most once in ``QUIET`` seconds for each
        resource or list. ``since`` is a position of the bus before the changes. ``recipients`` are the only clients to
        notify, if it is not all.
        """
        for uri, entries in self.touched(uris).items():
            self._schedule(("resource_updated", uri, recipients), entries, since)
        for name, keys in lists.items():
            if self._by_list[name]:
                self._schedule((name, "", recipients), keys, since)
        if self._pending and self._timer is None:
            loop = asyncio.get_running_loop()
            last = max(self._last.get(what, -inf) for what in self._pending)
            wait = max(0.0, last + QUIET - loop.time())
            self._timer = loop.call_later(wait, self._flush) if wait else loop.call_soon(self._flush)

    def _schedule(self, what: What, keys: Collection[str] | None, since: int) -> None:
        self._pending.setdefault(what, since)
        known = self._keys.setdefault(what, set())
        if keys is None or known is None or (what[0] != "resource_updated" and len(known) + len(keys) > MAX_KEYS):
            self._keys[what] = None
        else:
            known.update(keys)

    def catch_up(
        self, entry: Subscription, uris: Iterable[str] | UriChanges, lists: Mapping[str, Collection[str] | None]
    ) -> None:
        """Notify one subscriber of earlier changes to its subscriptions."""
        for name in LISTS:
            if name in lists and name in entry.lists:
                self._notify({entry}, name, "", lists[name])
        for uri, entries in self.touched(uris).items():
            if entry.uris and uri in entry.uris:
                self._notify({entry}, "resource_updated", uri, entries)

    def resync(self, entry: Subscription) -> None:
        """Notify one subscriber that everything it has subscribed to may have changed."""
        self.catch_up(entry, list(entry.uris or ()), dict.fromkeys(entry.lists))

    def resync_all(self, since: int = 0) -> None:
        """Schedule notifications that everything may have changed since a position of the bus."""
        self.changed(list(self._by_uri), dict.fromkeys(LISTS), since)

    def _flush(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._last = {what: at for what, at in self._last.items() if at > now - QUIET}
        for what in list(self._pending):
            del self._pending[what]  # before it is sent: its message may be the last one before another position
            self._last[what] = now
            event, uri, recipients = what
            listeners: Collection[Subscription] = (
                self._by_uri.get(uri, ()) if event == "resource_updated" else self._by_list[event]
            )
            if recipients is not None:
                listeners = [one for one in listeners if one.client is not None and recipients.include(one.client)]
            self._notify(listeners, event, uri, self._keys.pop(what, None))

    def _notify(
        self, listeners: Collection[Subscription], event: Event, uri: str, keys: Collection[str] | None = None
    ) -> None:
        """Notify subscribers of a change of a resource or a list.

        ``keys`` are the changed entries of a directory or a list, None if they are not known.
        """
        encoded: dict[tuple[str, str], bytes] = {}
        untagged = ChangeKey(event, uri, None)
        if event == "resource_updated":
            audience = Audience.of_resource(self.gate, uri, keys)
        else:
            audience = Audience.of_list(self.gate, event, keys)
        for entry in tuple(listeners):
            if entry.client is not None and not audience.has(entry.client.principal):
                continue
            revision, tag = entry.revision, entry.tag
            spelled = entry.uris[uri] if uri and entry.uris is not None else uri
            message = encoded.get((revision.name, spelled))
            if message is None:
                message = encoded[revision.name, spelled] = self._encode(revision, event, spelled)
            key = untagged
            if tag is not None:
                message = message.replace(TAG, encode(tag), 1)
                key = ChangeKey(event, uri, tag)
            shows = entry.shows.get(uri) if entry.shows else None
            if shows is None:
                entry.channel.send(message, key)
            else:
                task = asyncio.ensure_future(self._notify_if_shown(shows(), entry, uri, message))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)

    async def _notify_if_shown(self, shows: Awaitable[bool], entry: Subscription, uri: str, message: bytes) -> None:
        """Notify a subscriber of a change if the resource still exists for it; else the subscription to it ends."""
        shown = await shows
        if entry not in self._entries or entry.uris is None or uri not in entry.uris:
            return  # it has ended meanwhile
        if shown:
            entry.channel.send(message, ChangeKey("resource_updated", uri, entry.tag))
        else:
            self.unsubscribe(entry, uri)

    def _encode(self, revision: Revision, event: str, uri: str) -> bytes:
        """Encode a notification, with a placeholder for the subscription id where there is one."""
        meta = {SUBSCRIPTION: _PLACEHOLDER} if revision.stateless else None
        if event == "resource_updated":
            return encode_event(revision, event, ResourceUpdatedParams(meta=meta, uri=uri))
        return encode_event(revision, event, UNSET if meta is None else {"_meta": meta})

    @property
    def tasks(self) -> Collection[str]:
        """The ids of tasks that have subscribers."""
        return self._by_task

    def hears_task(self, id: str) -> bool:
        """Return whether a task has subscribers."""
        return id in self._by_task

    def may_hear_of_task(self, client: ConnectedClient, tool: str) -> bool:
        """Return whether a session may be notified of its task of a tool."""
        return Audience.of_task(self.gate, tool).has(client.principal)

    def task_changed(self, id: str, tool: str, task: DetailedTask) -> None:
        """Send the new state of a task to its subscribers who may use its tool, at once (tasks extension)."""
        listeners = self._by_task.get(id)
        if not listeners:
            return
        from carrel.protocol.extensions.tasks import TASKS

        audience = Audience.of_task(self.gate, tool)
        for entry in listeners:
            if entry.client is not None and not audience.has(entry.client.principal):
                continue
            params = msgspec.structs.replace(task, meta={SUBSCRIPTION: entry.tag})
            entry.channel.send(encode_event(entry.revision, "task", params, extension=TASKS), ("task", id))

    def acknowledge(self, entry: Subscription, honored: SubscriptionFilter) -> None:
        """Send the acknowledgement of a listen request: the honored filter. Must be its first message."""
        params = AcknowledgedParams(meta={SUBSCRIPTION: entry.tag}, notifications=honored)
        entry.channel.send(encode_event(entry.revision, "subscription_acknowledged", params))


def forget(index: dict[str, set[T]], key: str, value: T) -> None:
    """Remove a value from an index, and its key with the last value."""
    values = index.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del index[key]


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_PLACEHOLDER = "\x00carrel:subscription"
TAG = encode(_PLACEHOLDER)
