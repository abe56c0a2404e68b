"""Request handlers of a server by operation name, to which the method tables of the revisions refer.

The handlers of resources, tools and prompts are in their modules; the others are in this file: initialize, discover,
subscriptions of both eras, completion, ping and log level.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import UNSET

from carrel.errors import InvalidParams, MethodNotFound, ResourceNotFound, ServerUnavailable
from carrel.limits import Quota
from carrel.server.completion import limited
from carrel.server.subscriptions import SUBSCRIPTION, Subscription
from carrel.server.views import Visible, suggested, visible_to
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import Result
from carrel.wire.completion import CompleteResult, ResourceTemplateReference
from carrel.wire.lifecycle import DiscoverResult
from carrel.wire.resources import ListenResult, SubscriptionFilter
from carrel.wire.utilities import SEVERITY

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.app import Server
    from carrel.server.watching import Following

__all__ = ["Operation", "operations_of"]

#: Bytes of memory that the client information takes, for each byte of an initialize request.
PEER_FACTOR = 4

Operation: TypeAlias = "Callable[[Call, Channel], Any]"
Named: TypeAlias = tuple[str, str]
"""The normal form of a URI, and the URI as the client wrote it."""

#: How many URIs are resolved before other requests have their turn.
AT_ONCE = 100


def operations_of(app: Server) -> dict[str, Operation]:
    """Return the request handlers of a server without extensions, by operation name."""
    rest = Operations(app)
    return {
        "call_tool": app.tools.call,
        "complete": rest.complete,
        "discover": rest.discover,
        "get_prompt": app.prompts.get,
        "initialize": rest.initialize,
        "list_prompts": app.prompts.list,
        "list_resource_templates": app.resources.list_templates,
        "list_resources": app.resources.list,
        "list_tools": app.tools.list,
        "listen": rest.listen,
        "ping": rest.ping,
        "read_resource": app.resources.read,
        "set_level": rest.set_level,
        "subscribe": rest.subscribe,
        "unsubscribe": rest.unsubscribe,
    }


class Operations:
    """Request handlers that belong to no resource, tool or prompt."""

    def __init__(self, app: Server) -> None:
        self._app = app

    @cached_property
    def _listeners(self) -> Quota:
        """Quota of listen requests, with the limit as it is when the first one comes."""
        return Quota(sys.maxsize, self._app.limits.max_listeners_per_client)

    def initialize(self, call: Call, channel: Channel) -> Result:
        """Answer initialize: open a session and its subscription."""
        connection = call.connection
        result = connection.initialize(call)
        lists = frozenset(self._app.announced())
        entry = Subscription(connection.channel or channel, call.peer.revision, lists, connection=connection)
        try:
            entry.take(PEER_FACTOR * len(bytes(call.raw)))
            self._app.hub.open(entry)
        except ServerUnavailable:
            entry.give(entry.size)
            connection.peer = None
            raise
        entry.save = getattr(entry.channel, "save_subscription", None)  # sessions over HTTP have one
        connection.subscriptions = entry
        return result

    def discover(self, call: Call, channel: Channel) -> Result:
        """Answer server/discover: versions, capabilities and instructions."""
        description = self._app.description
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

    def subscribe(self, call: Call, channel: Channel) -> Any:
        """Answer resources/subscribe, at once or as soon as the source of the resource listens for changes.

        Raises:
            InvalidParams: it has subscribed to too many already.
            ServerUnavailable: too much is kept for its client.
        """
        return self._subscription(call, self._subscribe)

    def unsubscribe(self, call: Call, channel: Channel) -> Any:
        """Answer resources/unsubscribe."""
        return self._subscription(call, self._unsubscribe)

    def _subscribe(self, call: Call, name: str) -> Any:
        forming = self._app.forming and self._app.forming_for((name,), ())
        if forming:
            return self._subscribe_later(call, name, forming)
        return self._subscribe_now(call, name)

    def _subscribe_now(self, call: Call, name: str) -> Result:
        entry, most = call.connection.subscriptions, self._app.limits.max_subscriptions
        if entry.uris is not None and len(entry.uris) >= most and name not in entry.uris:
            raise InvalidParams(f"Invalid params: at most {most} subscriptions", parameter="uri")
        self._app.hub.subscribe(entry, name, call.params.uri)
        return Result()

    async def _subscribe_later(self, call: Call, name: str, forming: Collection[Following]) -> Result:
        from carrel.server.watching import PATIENCE, listening

        await listening(forming, PATIENCE, promised=True)
        ended = call.connection.subscriptions is None
        return Result() if ended else self._subscribe_now(call, name)

    def _unsubscribe(self, call: Call, name: str) -> Result:
        self._app.hub.unsubscribe(call.connection.subscriptions, name)
        return Result()

    def _subscription(self, call: Call, change: Callable[[Call, str], Any]) -> Any:
        """Change a subscription to a resource that is shared and visible to the caller."""
        if not self._app.offers_subscriptions:
            raise MethodNotFound("Method not found: this server does not offer subscriptions")
        name = self._app.resources.require(call.params.uri)
        visible = visible_to(call)
        return change(call, name) if visible is None else self._subscription_seen(call, change, name, visible)

    async def _subscription_seen(
        self, call: Call, change: Callable[[Call, str], Any], name: str, visible: Visible
    ) -> Result:
        if not await self._app.resources.shows(call.params.uri, visible):
            raise ResourceNotFound(call.params.uri)
        changed = change(call, name)
        return cast("Result", await changed if hasattr(changed, "__await__") else changed)

    def listen(self, call: Call, channel: Channel) -> Any:
        """Answer subscriptions/listen: open a long-lived stream of notifications.

        The response is sent when the server ends it; a client ends it by cancelling. There may be many of them, for
        long, and a future costs a fraction of what a task does.

        Raises:
            InvalidParams: it asks for too many resources.
            ServerUnavailable: its client has too many of them, or too much is kept for it.
            MissingCapability: it asks for tasks, and the client did not declare that it knows them.
        """
        wanted, most = call.params.notifications.resource_subscriptions, self._app.limits.max_subscriptions
        if wanted is UNSET or not self._app.offers_subscriptions:
            wanted = ()
        if len(wanted) > most:
            raise InvalidParams(f"Invalid params: at most {most} subscriptions", parameter="notifications")
        tasks: Any = []
        if self._app.has_tasks and call.params.notifications.task_ids is not UNSET:
            tasks = self._app.tasks.honored(call, call.params.notifications.task_ids)
        visible = visible_to(call) if wanted else None
        if visible is None and len(wanted) <= AT_ONCE and isinstance(tasks, list):
            return self._listen(call, channel, self._named(wanted), tasks)
        return self._listen_later(call, channel, wanted, tasks, visible)

    def _named(self, uris: Sequence[str]) -> list[Named]:
        """Return the resources that URIs name, each with its URI as it was written."""
        exists = self._app.resources.exists
        return [(name, uri) for uri in uris if (name := exists(uri)) is not None]

    async def _listen_later(
        self, call: Call, channel: Channel, wanted: Sequence[str], tasks: Any, visible: Visible | None
    ) -> Result:
        """Listen to the resources that the caller may see, while other requests have their turns: there may be many."""
        if not isinstance(tasks, list):
            tasks = await tasks
        named: list[Named] = []
        for start in range(0, len(wanted), AT_ONCE):
            part = wanted[start : start + AT_ONCE]
            if visible is not None:
                part = [uri for uri in part if await self._app.resources.shows(uri, visible)]
            named += self._named(part)
            await asyncio.sleep(0)
        await self._listen(call, channel, named, tasks)
        return listened(call)

    def _listen(self, call: Call, channel: Channel, named: list[Named], tasks: list[str]) -> asyncio.Future[Any]:
        client = call.connection.client
        if not self._listeners.take(client):
            raise ServerUnavailable(
                f"There are too many subscriptions/listen requests of this client: at most {self._listeners.share}"
            )
        try:
            entry, honored = self._entry(call, channel, named, tasks)
            answer = entry.answer = asyncio.get_running_loop().create_future()
            entry.farewell = call.connection.reply(call, listened(call))
            forming = self._app.forming and self._app.forming_for(entry.uris or (), entry.lists)
            if not forming:
                self._app.hub.open(entry)
        except Exception:
            self._listeners.give(client)
            raise
        answer.add_done_callback(lambda _: self._close(entry))
        if forming:
            self._app.acknowledge_later(self._acknowledge_later(call, entry, honored, forming))
        else:
            self._app.hub.acknowledge(entry, honored)
        return answer

    def _close(self, entry: Subscription) -> None:
        self._app.hub.close(entry)
        if entry.connection is not None:
            self._listeners.give(entry.connection.client)

    async def _acknowledge_later(
        self, call: Call, entry: Subscription, honored: SubscriptionFilter, forming: Collection[Following]
    ) -> None:
        from carrel.server.watching import PATIENCE, listening

        await listening(forming, PATIENCE, promised=True)
        if entry.answer is None or entry.answer.done():  # the client is gone
            return
        try:
            self._app.hub.open(entry)
        except ServerUnavailable as error:
            entry.answer.set_result(call.connection.refuse(call, error))
        else:
            self._app.hub.acknowledge(entry, honored)

    def _entry(
        self, call: Call, channel: Channel, named: list[Named], tasks: list[str]
    ) -> tuple[Subscription, SubscriptionFilter]:
        """Return the subscription of a listen request, and the part of its filter that is honored."""
        app = self._app
        wanted: SubscriptionFilter = call.params.notifications
        honored, lists = SubscriptionFilter(), list[str]()
        for name in app.announced():
            if getattr(wanted, name):
                setattr(honored, name, True)
                lists.append(name)
        if app.offers_subscriptions and wanted.resource_subscriptions is not UNSET:
            honored.resource_subscriptions = [uri for _, uri in named]
        if app.has_tasks and wanted.task_ids is not UNSET:
            honored.task_ids = tasks
        listed, followed = frozenset(lists), frozenset(tasks)
        return Subscription(
            channel, call.peer.revision, listed, dict(named), call.id, followed, connection=call.connection
        ), honored

    def complete(self, call: Call, channel: Channel) -> Any:
        """Answer completion/complete: suggest values for an argument of a prompt or a variable of a template."""
        app, params = self._app, call.params
        if not (app.resources.completes or app.prompts.completes):
            raise MethodNotFound("Method not found: nothing here can be completed")
        context = {} if params.context is UNSET or params.context.arguments is UNSET else params.context.arguments
        argument, value = params.argument.name, params.argument.value
        visible = visible_to(call)
        run = partial(app.run_in_thread, call)
        if isinstance(params.ref, ResourceTemplateReference):
            suggestions = app.resources.suggest(params.ref.uri, argument, value, context, run, visible)
            if visible is not None:
                return self._complete_seen(suggestions, params, context, visible)
        else:
            suggestions = app.prompts.suggest(params.ref.name, argument, value, context, run)
        if hasattr(suggestions, "__await__"):
            return self._complete_later(suggestions)
        return CompleteResult(completion=limited(suggestions))

    @staticmethod
    async def _complete_later(pending: Awaitable[Any]) -> Result:
        return CompleteResult(completion=limited(await pending))

    @staticmethod
    async def _complete_seen(suggestions: Any, params: Any, context: dict[str, str], visible: Visible) -> Result:
        if hasattr(suggestions, "__await__"):
            suggestions = await suggestions
        try:
            template = UriTemplate(params.ref.uri)
        except UriTemplateError:
            return CompleteResult(completion=limited(None))  # a resource without variables
        return CompleteResult(
            completion=limited(suggested(suggestions, template, params.argument.name, context, visible))
        )


def listened(call: Call) -> ListenResult:
    """Return the result of a listen request, which is sent at its end."""
    return ListenResult(meta={SUBSCRIPTION: call.id})
