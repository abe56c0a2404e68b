"""Subscriptions to resources, lists and tasks, and their notifications: one hub for both eras.

``subscriptions/listen`` (2026-07-28) opens an entry with a filter; ``initialize`` opens the entry of a session, and
``resources/subscribe`` edits its filter. A change is encoded once per revision and the bytes fan out.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from carrel.catalog.provider import ListName
from carrel.errors import ServerUnavailable
from carrel.limits import NO_ROOM
from carrel.protocol.channel import Channel
from carrel.protocol.encoding import encode, encode_event
from carrel.protocol.revision import Revision
from carrel.wire.base import Id
from carrel.wire.resources import AcknowledgedParams, ResourceUpdatedParams, SubscriptionFilter
from carrel.wire.utilities import CancelledParams

if TYPE_CHECKING:
    from carrel.protocol.server import Connection
    from carrel.wire.tasks import DetailedTask

__all__ = ["Hub", "Subscription"]

#: Names of the lists that can change; also those of their events.
LISTS: tuple[ListName, ...] = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")

#: Bytes of memory that a subscriber, and each resource or task it subscribes to, take besides their texts.
ENTRY_BYTES = 2048
SUBSCRIPTION_BYTES = 512

#: Seconds in which repeated changes of the same thing become one notification. The first one leaves at once.
QUIET = 0.05


@cache
def set_of(lists: tuple[str, ...]) -> frozenset[str]:
    """Return a set of lists, the same one for all sessions that listen to them."""
    return frozenset(lists)


class Subscription(msgspec.Struct, eq=False, weakref=True, gc=True):
    """Subscription of one client: its channel, and its filter.

    ``tag`` is the id of its listen request, if it has one; ``farewell`` is the response to that, sent when the server
    ends it. ``uris`` are the resources subscribed to: the normal form of each, and the spelling of the client. ``size``
    is how many bytes count as kept for the client of ``connection``, if there is one. ``save`` is called with each URI
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
    connection: Connection | None = None
    size: int = 0
    save: Callable[[str, str | None], None] | None = None

    def weigh(self, uri: str, spelled: str) -> int:
        """Return the bytes that a subscription to a resource takes, with one notification that waits to be sent."""
        tag = len(self.tag) if isinstance(self.tag, str) else 0
        return SUBSCRIPTION_BYTES + sys.getsizeof(uri) + 2 * sys.getsizeof(spelled) + tag

    def take(self, size: int) -> None:
        """Count bytes as kept for the client.

        Raises:
            ServerUnavailable: there is no room for them.
        """
        if self.connection is not None and not self.connection.take(size):
            raise ServerUnavailable(NO_ROOM)
        self.size += size

    def give(self, size: int) -> None:
        """Release bytes that were counted as kept for the client."""
        if self.connection is not None:
            self.connection.give(size)
        self.size -= size


class Hub:
    """All subscriptions of a server, and the fan-out of notifications."""

    def __init__(self) -> None:
        self.sessions: dict[Connection, Subscription] = {}
        """Subscriptions of sessions, until their connections are closed."""
        self._entries: set[Subscription] = set()
        self._by_uri: dict[str, set[Subscription]] = {}
        self._by_task: dict[str, set[Subscription]] = {}
        self._by_list: dict[str, set[Subscription]] = {name: set() for name in LISTS}
        self._pending: dict[tuple[str, str], None] = {}
        self._timer: asyncio.Handle | None = None
        self._last: dict[tuple[str, str], float] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def uris(self) -> Collection[str]:
        """The resources that have subscribers."""
        return self._by_uri

    def open(self, entry: Subscription) -> None:
        """Add a subscription, which gets notifications from now on.

        Raises:
            ServerUnavailable: there is no room for it in the budget of its client.
        """
        uris = sum(entry.weigh(uri, spelled) for uri, spelled in entry.uris.items()) if entry.uris else 0
        entry.take(ENTRY_BYTES + uris + SUBSCRIPTION_BYTES * len(entry.tasks) + 4 * len(entry.farewell))
        self._entries.add(entry)
        for name in entry.lists:
            self._by_list[name].add(entry)
        for uri in entry.uris or ():
            self._by_uri.setdefault(uri, set()).add(entry)
        for id in entry.tasks:
            self._by_task.setdefault(id, set()).add(entry)

    def close(self, entry: Subscription) -> None:
        """Remove a subscription. Closing twice does no harm."""
        self._entries.discard(entry)
        entry.give(entry.size)
        for name in entry.lists:
            self._by_list[name].discard(entry)
        for uri in entry.uris or ():
            self._forget(self._by_uri, uri, entry)
        for id in entry.tasks:
            self._forget(self._by_task, id, entry)

    @staticmethod
    def _forget(index: dict[str, set[Subscription]], key: str, entry: Subscription) -> None:
        listeners = index.get(key)
        if listeners is not None:
            listeners.discard(entry)
            if not listeners:
                del index[key]

    def subscribe(self, entry: Subscription, uri: str, spelled: str) -> None:
        """Add a resource to the subscription of a session. Notifications name it as it is ``spelled``.

        Raises:
            ServerUnavailable: there is no room for it in the budget of its client.
        """
        if entry.uris is None:
            entry.uris = {}
        size = entry.weigh(uri, spelled)
        if uri in entry.uris:
            size -= entry.weigh(uri, entry.uris[uri])
        entry.take(size)
        entry.uris[uri] = spelled
        self._by_uri.setdefault(uri, set()).add(entry)
        if entry.save is not None:
            entry.save(uri, spelled)

    def unsubscribe(self, entry: Subscription, uri: str) -> None:
        """Remove a resource from a subscription; one that was never there is no error."""
        if entry.uris is not None and uri in entry.uris:
            entry.give(entry.weigh(uri, entry.uris.pop(uri)))
            self._forget(self._by_uri, uri, entry)
            if entry.save is not None:
                entry.save(uri, None)

    def shut(self) -> None:
        """End every listen request gracefully, after sending the pending notifications."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        for entry in list(self._entries):
            if entry.answer is not None and entry.tag is not None and not entry.answer.done():
                ending = CancelledParams(request_id=entry.tag, reason="the server ends this subscription")
                entry.channel.send(encode_event(entry.revision, "cancelled", ending))
                entry.answer.set_result(entry.farewell)

    # Notifications

    def changed(self, uris: Iterable[str] = (), lists: Iterable[str] = ()) -> None:
        """Schedule notifications of changed resources or lists. Must run on the event loop of the server.

        They are sent in the next turn of the loop, or, if the last ones were sent less than ``QUIET`` seconds ago, when
        that time is over: a storm of changes of one resource or list is one notification per ``QUIET``.
        """
        for uri in uris:
            if uri in self._by_uri:
                self._pending["resource_updated", uri] = None
        for name in lists:
            if self._by_list[name]:
                self._pending[name, ""] = None
        if self._pending and self._timer is None:
            loop = asyncio.get_running_loop()
            now = loop.time()
            wait = max(0.0, max((self._last.get(what, 0.0) for what in self._pending), default=0.0) + QUIET - now)
            self._timer = loop.call_later(wait, self._flush) if wait else loop.call_soon(self._flush)

    def resync(self, entry: Subscription) -> None:
        """Notify one subscriber that everything it has subscribed to may have changed."""
        for name in entry.lists:
            self._tell({entry}, name, "")
        for uri in entry.uris or ():
            self._tell({entry}, "resource_updated", uri)

    def resync_all(self) -> None:
        """Schedule notifications that everything may have changed."""
        self.changed(list(self._by_uri), LISTS)

    def _flush(self) -> None:
        self._timer = None
        pending, self._pending = self._pending, {}
        now = asyncio.get_running_loop().time()
        self._last = {what: at for what, at in self._last.items() if at > now - QUIET}
        for what in pending:
            self._last[what] = now
            event, uri = what
            listeners = self._by_uri.get(uri) if event == "resource_updated" else self._by_list[event]
            if listeners:
                self._tell(listeners, event, uri)

    def _tell(self, listeners: set[Subscription], event: str, uri: str) -> None:
        encoded: dict[tuple[str, str], bytes] = {}
        for entry in tuple(listeners):
            revision, tag = entry.revision, entry.tag
            spelled = entry.uris[uri] if uri and entry.uris is not None else uri
            message = encoded.get((revision.name, spelled))
            if message is None:
                message = encoded[revision.name, spelled] = self._encode(revision, event, spelled)
            if tag is not None:
                message = message.replace(TAG, encode(tag), 1)
            entry.channel.send(message, (event, uri, tag))

    def _encode(self, revision: Revision, event: str, uri: str) -> bytes:
        """Encode a notification, with a placeholder for the subscription id where there is one."""
        meta = {SUBSCRIPTION: _PLACEHOLDER} if revision.stateless else None
        if event == "resource_updated":
            return encode_event(revision, event, ResourceUpdatedParams(meta=meta, uri=uri))
        return encode_event(revision, event, UNSET if meta is None else {"_meta": meta})

    def hears_task(self, id: str) -> bool:
        """Return whether a task has subscribers."""
        return id in self._by_task

    def task_changed(self, id: str, task: DetailedTask) -> None:
        """Send the new state of a task to its subscribers, at once (tasks extension)."""
        listeners = self._by_task.get(id)
        if not listeners:
            return
        from carrel.protocol.extensions.tasks import TASKS

        for entry in listeners:
            params = msgspec.structs.replace(task, meta={SUBSCRIPTION: entry.tag})
            entry.channel.send(encode_event(entry.revision, "task", params, extension=TASKS), ("task", id))

    def acknowledge(self, entry: Subscription, honored: SubscriptionFilter) -> None:
        """Send the acknowledgement of a listen request: the honored filter. Must be its first message."""
        params = AcknowledgedParams(meta={SUBSCRIPTION: entry.tag}, notifications=honored)
        entry.channel.send(encode_event(entry.revision, "subscription_acknowledged", params))


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_PLACEHOLDER = "\x00carrel:subscription"
TAG = encode(_PLACEHOLDER)
