"""Request handlers of a server that are not answered from its catalog: lifecycle, subscriptions, ping and log level."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.access import request_of
from carrel.catalog.provider import Request
from carrel.catalog.routes import valid_uri
from carrel.errors import InvalidParams, MethodNotFound, ResourceNotFound, ServerUnavailable
from carrel.limits import Quota
from carrel.server.subscriptions import SUBSCRIPTION, Subscription, set_of
from carrel.uri.parse import canonical
from carrel.wire.base import Result
from carrel.wire.lifecycle import DiscoverResult
from carrel.wire.resources import ListenResult, SubscriptionFilter
from carrel.wire.utilities import SEVERITY

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call, Reply
    from carrel.server.provider_watch import ProviderWatch
    from carrel.server.runtime import Operation, Runtime
    from carrel.server.watching import Watches

__all__ = ["Operations"]

#: Bytes of memory that the client information takes, for each byte of an initialize request.
PEER_FACTOR = 4

Named: TypeAlias = tuple[str, str]
"""The normal form of a URI, and the URI as the client wrote it."""

#: Number of URIs to resolve before yielding to the event loop.
AT_ONCE = 100


class Operations:
    """Request handlers of lifecycle, subscriptions, ping and log level.

    ``notified_lists`` returns the lists with change notifications.
    """

    def __init__(self, runtime: Runtime, watches: Watches, notified_lists: Callable[[], Sequence[str]]) -> None:
        self._runtime = runtime
        self._watches = watches
        self._notified_lists = notified_lists

    def handlers(self) -> dict[str, Operation]:
        """Return the handlers by operation name."""
        return {
            "discover": self.discover,
            "initialize": self.initialize,
            "listen": self.listen,
            "ping": self.ping,
            "set_level": self.set_level,
            "subscribe": self.subscribe,
            "unsubscribe": self.unsubscribe,
        }

    @cached_property
    def _listeners(self) -> Quota:
        """Quota of listen requests."""
        return Quota(sys.maxsize, self._runtime.limits.max_listeners_per_client)

    def initialize(self, call: Call, channel: Channel) -> Result:
        """Answer initialize: open a session and its subscription."""
        connection = call.connection
        result = connection.initialize(call)
        lists = set_of(tuple(self._notified_lists()))
        entry = Subscription(call.client.channel or channel, call.peer.revision, lists, client=call.client)
        try:
            entry.take(PEER_FACTOR * len(bytes(call.raw)))
            self._runtime.hub.open(entry)
        except ServerUnavailable:
            entry.give(entry.size)
            connection.reject_session()
            raise
        if call.client.shared:
            entry.save = getattr(entry.channel, "save_subscription", None)  # sessions over HTTP have one
        self._runtime.hub.sessions[connection] = entry
        return result

    def discover(self, call: Call, channel: Channel) -> Result:
        """Answer server/discover: versions, capabilities and instructions."""
        description = self._runtime.description
        return DiscoverResult(
            supported_versions=list(description.revisions),
            capabilities=description.capabilities(),
            instructions=description.instructions,
        )

    @staticmethod
    def ping(call: Call, channel: Channel) -> Result:
        """Answer ping."""
        return Result()

    @staticmethod
    def set_level(call: Call, channel: Channel) -> Result:
        """Answer logging/setLevel: store the log level of a session."""
        call.peer.log_level = SEVERITY[call.params.level]
        return Result()

    def subscribe(self, call: Call, channel: Channel) -> MaybeAwaitable[Result]:
        """Answer resources/subscribe, at once or as soon as the source of the resource listens for changes.

        Raises:
            InvalidParams: the session has too many subscriptions.
            ServerUnavailable: the memory budget of its client is used up.
        """
        return self._subscription(call, self._subscribe)

    def unsubscribe(self, call: Call, channel: Channel) -> MaybeAwaitable[Result]:
        """Answer resources/unsubscribe."""
        return self._subscription(call, self._unsubscribe)

    def _subscribe(self, call: Call, name: str) -> MaybeAwaitable[Result]:
        forming = self._watches.forming_for((name,), ())
        if forming:
            return self._subscribe_later(call, name, forming)
        return self._subscribe_now(call, name)

    def _subscribe_now(self, call: Call, name: str) -> Result:
        entry, most = self._runtime.hub.sessions[call.connection], self._runtime.limits.max_subscriptions
        if entry.uris is not None and len(entry.uris) >= most and name not in entry.uris:
            raise InvalidParams(f"Invalid params: at most {most} subscriptions", parameter="uri")
        self._runtime.hub.subscribe(entry, name, call.params.uri)
        self._guard(entry, (name,), call)
        self._watches.notify()
        return Result()

    async def _subscribe_later(self, call: Call, name: str, forming: Collection[ProviderWatch]) -> Result:
        await self._watches.wait(forming)
        ended = call.connection not in self._runtime.hub.sessions
        return Result() if ended else self._subscribe_now(call, name)

    def _guard(self, entry: Subscription, uris: Iterable[str], call: Call) -> None:
        if call.view is not None or self._runtime.catalog.guards:
            from carrel.server.guards import guard  # few servers need it

            guard(self._runtime.catalog, entry, uris, call)

    def _unsubscribe(self, call: Call, name: str) -> Result:
        self._runtime.hub.unsubscribe(self._runtime.hub.sessions[call.connection], name)
        self._watches.notify()
        return Result()

    def _subscription(
        self, call: Call, change: Callable[[Call, str], MaybeAwaitable[Result]]
    ) -> MaybeAwaitable[Result]:
        """Change a subscription to a resource that is shared and visible to the caller."""
        if not self._runtime.settings.subscribe:
            raise MethodNotFound("Method not found: this server does not offer subscriptions")
        uri: str = call.params.uri
        if uri not in self._runtime.catalog.routes:
            valid_uri(uri)
            raise ResourceNotFound(uri)
        if call.view is None and not self._runtime.catalog.guards:
            return change(call, canonical(uri))
        return self._subscription_seen(call, change, canonical(uri), request_of(call))

    async def _subscription_seen(
        self, call: Call, change: Callable[[Call, str], MaybeAwaitable[Result]], name: str, request: Request
    ) -> Result:
        if not await self._runtime.catalog.accepts(call.params.uri, request):
            raise ResourceNotFound(call.params.uri)
        return await resolved(change(call, name))

    def listen(self, call: Call, channel: Channel) -> Awaitable[Result | Reply]:
        """Answer subscriptions/listen: open a long-lived stream of notifications.

        The response is sent when the server ends the stream; a client ends the stream by cancelling. Streams may be
        numerous and long-lived, and a future costs a fraction of a task.

        Raises:
            InvalidParams: the request names too many resources.
            ServerUnavailable: the client has too many streams, or too many bytes are queued for it.
            MissingCapability: the request subscribes to tasks, and the client did not declare the tasks extension.
        """
        wanted, most = call.params.notifications.resource_subscriptions, self._runtime.limits.max_subscriptions
        if wanted is None or not self._runtime.settings.subscribe:
            wanted = ()
        if len(wanted) > most:
            raise InvalidParams(f"Invalid params: at most {most} subscriptions", parameter="notifications")
        tasks: list[str] | Awaitable[list[str]] = []
        if self._runtime.has_tasks and call.params.notifications.task_ids is not None:
            tasks = self._runtime.tasks.honored(call, call.params.notifications.task_ids)
        unrestricted = call.view is None and not self._runtime.catalog.guards
        if (unrestricted or not wanted) and len(wanted) <= AT_ONCE and isinstance(tasks, list):
            return self._listen(call, channel, self._named(wanted), tasks)
        return self._listen_later(call, channel, wanted, tasks, request_of(call))

    def _named(self, uris: Sequence[str]) -> list[Named]:
        """Return the resources that URIs name, each with its URI as it was written."""
        return [(canonical(uri), uri) for uri in uris if uri in self._runtime.catalog.routes]

    async def _listen_later(
        self,
        call: Call,
        channel: Channel,
        wanted: Sequence[str],
        tasks: list[str] | Awaitable[list[str]],
        request: Request,
    ) -> Result:
        """Listen to the resources that the caller may see, while other requests have their turns: there may be many."""
        followed = await resolved(tasks)
        named: list[Named] = []
        for start in range(0, len(wanted), AT_ONCE):
            part = wanted[start : start + AT_ONCE]
            if request.view is not None or self._runtime.catalog.guards:
                part = [uri for uri in part if await self._runtime.catalog.accepts(uri, request)]
            named += self._named(part)
            await asyncio.sleep(0)
        await self._listen(call, channel, named, followed)
        return listened(call)

    def _listen(self, call: Call, channel: Channel, named: list[Named], tasks: list[str]) -> asyncio.Future[Reply]:
        client = call.client.key
        self._listeners.limit(sys.maxsize, self._runtime.limits.max_listeners_per_client)
        if not self._listeners.take(client):
            raise ServerUnavailable(
                f"There are too many subscriptions/listen requests of this client: at most {self._listeners.share}"
            )
        try:
            entry, honored = self._entry(call, channel, named, tasks)
            answer = entry.answer = asyncio.get_running_loop().create_future()
            entry.farewell = call.connection.reply(call, listened(call))
            forming = self._watches.forming_for(entry.uris or (), entry.lists)
            if not forming:
                self._open(entry)
        except Exception:
            self._listeners.give(client)
            raise
        answer.add_done_callback(lambda _: self._close(entry))
        if forming:
            self._watches.acknowledge_later(self._acknowledge_later(call, entry, honored, forming))
        else:
            self._runtime.hub.acknowledge(entry, honored)
        return answer

    def _open(self, entry: Subscription) -> None:
        self._runtime.hub.open(entry)
        self._watches.notify()

    def _close(self, entry: Subscription) -> None:
        self._runtime.hub.close(entry)
        self._watches.notify()
        if entry.client is not None:
            self._listeners.give(entry.client.key)

    async def _acknowledge_later(
        self, call: Call, entry: Subscription, honored: SubscriptionFilter, forming: Collection[ProviderWatch]
    ) -> None:
        await self._watches.wait(forming)
        if entry.answer is None or entry.answer.done():  # the client is gone
            return
        try:
            self._open(entry)
        except ServerUnavailable as error:
            entry.answer.set_result(call.connection.reject(call, error))
        else:
            self._runtime.hub.acknowledge(entry, honored)

    def _entry(
        self, call: Call, channel: Channel, named: list[Named], tasks: list[str]
    ) -> tuple[Subscription, SubscriptionFilter]:
        """Return the subscription of a listen request, and the part of its filter that is honored."""
        runtime = self._runtime
        wanted: SubscriptionFilter = call.params.notifications
        honored, lists = SubscriptionFilter(), list[str]()
        for name in self._notified_lists():
            if getattr(wanted, name):
                setattr(honored, name, True)
                lists.append(name)
        if runtime.settings.subscribe and wanted.resource_subscriptions is not None:
            honored.resource_subscriptions = [uri for _, uri in named]
        if runtime.has_tasks and wanted.task_ids is not None:
            honored.task_ids = tasks
        listed, followed = frozenset(lists), frozenset(tasks)
        entry = Subscription(channel, call.peer.revision, listed, dict(named), call.id, followed, client=call.client)
        self._guard(entry, entry.uris or (), call)
        return entry, honored


def listened(call: Call) -> ListenResult:
    """Return the result of a listen request, which is sent at its end."""
    return ListenResult(meta={SUBSCRIPTION: call.id})
