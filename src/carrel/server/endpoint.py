"""Interface of a server for its transports, and for servers that it is added to: ``app.endpoint``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carrel.awaitables import MaybeAwaitable
from carrel.protocol.server import ServerProtocol
from carrel.server.elicitation.input_required import abandon
from carrel.server.subscriptions import Subscription, set_of

if TYPE_CHECKING:
    from carrel.catalog.catalog import Catalog
    from carrel.catalog.provider import Provider
    from carrel.limits import Budget, Limits
    from carrel.protocol.channel import Channel, ConnectedClient
    from carrel.protocol.description import Description
    from carrel.protocol.methods import RequestType
    from carrel.protocol.observer import Observer, RejectedRequest
    from carrel.protocol.server import Call, ErrorResponse, Reply
    from carrel.server.dispatch import Dispatch
    from carrel.server.lifecycle import Lifecycle
    from carrel.server.observation import Observation
    from carrel.server.runtime import Operation, Runtime
    from carrel.server.watching import Watches
    from carrel.state.records import Changed
    from carrel.state.replica import Replica
    from carrel.transports.server.route import Route

__all__ = ["ServerEndpoint"]


class ServerEndpoint:
    """Endpoint of a server: opens connections and answers calls. Implements ``transports.server.Application``.

    Programs that use a server do not need it: ``app.run``, ``app.asgi`` and ``Client(app)`` do. ``notified_lists``
    returns the lists with change notifications.
    """

    def __init__(
        self,
        runtime: Runtime,
        dispatch: Dispatch,
        lifecycle: Lifecycle,
        watches: Watches,
        notified_lists: Callable[[], Sequence[str]],
    ) -> None:
        self.runtime = runtime
        """Settings and services that the registries, handlers and contexts of the server share."""
        self.catalog: Catalog = runtime.catalog
        """Catalog of the providers of the server."""
        self.description: Description = runtime.description
        """The server's description: name, version, instructions, revisions, extensions."""
        self.watches = watches
        """Watches over the providers, for subscriptions."""
        self.answer: Callable[[Call, Channel], MaybeAwaitable[Reply]] = dispatch.answer
        self.reject: Callable[[Call, BaseException], ErrorResponse] = dispatch.reject
        self.refuse: Callable[[Call, BaseException], ErrorResponse] = _refuse
        self.rejected: Callable[[ErrorResponse], None] = _ignore
        self.http_rejected: Callable[[RejectedRequest], None] | None = None
        self.position: Callable[[], int] = runtime.position
        self.stop = lifecycle.stop
        self.end_streams = lifecycle.end_streams
        self.finish_tasks = runtime.finish_tasks
        self.gauges: dict[str, Callable[[], float]] = {
            "subscriptions": lambda: len(runtime.hub),
            "kept_bytes": lambda: runtime.budget.used,
            "threads": lambda: runtime.busy_threads,
        }
        """Numbers for metrics by name: of the server, and of its transports."""
        self.sources = lifecycle.sources
        self.unavailable_sources = lifecycle.unavailable_sources
        self._notified_lists = notified_lists
        self._lifecycle = lifecycle
        self._dispatch = dispatch
        self._is_observed = False
        self._observation: Observation | None = None

    @property
    def limits(self) -> Limits:
        """Limits on messages, buffers, connections and requests of clients."""
        return self.runtime.limits

    @property
    def budget(self) -> Budget:
        """Budget of the memory that is kept for clients."""
        return self.runtime.budget

    @property
    def routes(self) -> Sequence[Route]:
        """HTTP routes that are served beside the MCP endpoint."""
        return self.runtime.routes

    @property
    def unprotected(self) -> Iterable[str]:
        """Names of servers with an authorization of their program, which the transport does not know."""
        return self.runtime.unprotected()

    @property
    def is_stopping(self) -> bool:
        """Whether the server finishes its last requests. Thread-safe."""
        return self._lifecycle.is_stopping

    @property
    def replica(self) -> Replica:
        """This server among its replicas, with the state that they share. The default state is in memory."""
        return self.runtime.replica

    async def start(self) -> None:
        """Enter the lifespan, start the providers and begin to watch them, for the first transport that calls it.

        Raises:
            ConfigError: it runs in another event loop, a part of it cannot be started, or middleware is for a method
                that does not exist.
        """
        self._dispatch.check_methods()
        if "opentelemetry" in sys.modules:
            self._observe()
        await self._lifecycle.start()
        self._dispatch.compose()

    def observe(self, observer: Observer) -> None:
        """Tell an observer of all calls that are answered, and of all HTTP requests that are refused."""
        if self._observation is None:
            from carrel.server.observation import Observation  # few servers need it

            found = self._observation = Observation(self._dispatch)
            self.answer, self.refuse, self.http_rejected = found.answer, found.refuse, found.http_rejected
            self.rejected = found.rejected
        self._observation.add(observer)

    def inside_middleware(self) -> Provider:
        """Return the catalog for an outer server, inside the middleware of this server, if there is any."""
        if not self._dispatch.has_middleware:
            return self.catalog
        from carrel.server.middleware.provider import MiddlewareProvider

        return MiddlewareProvider(self.catalog, self._dispatch)

    def handler(self, row: RequestType, *, middleware: bool) -> Operation:
        """Return the handler of a request for an outer server, inside the middleware of this server if that is set."""
        return partial(self._dispatch.handle, row) if middleware else self.runtime.operations[row.operation]

    def connect(self) -> ServerProtocol:
        """Return a new connection, without information about its client yet."""
        return ServerProtocol(self.runtime.description)

    def disconnect(self, connection: ServerProtocol, client: ConnectedClient) -> None:
        """Drop a connection, its subscriptions, and the requests to its client that are pending."""
        abandon(connection)
        client.close()
        connection.close()
        session = self.runtime.sessions.pop(connection, None)
        if session is not None:
            session.close()
        subscription = self.runtime.hub.sessions.pop(connection, None)
        if subscription is not None:
            self.runtime.hub.close(subscription)

    def restore(self, connection: ServerProtocol, client: ConnectedClient, subscriptions: Mapping[str, str]) -> None:
        """Open the subscription of a session that another replica has begun, with its URIs as the client spells them.

        Raises:
            ServerUnavailable: the memory budget of its client is used up.
        """
        assert connection.peer is not None
        lists, revision = set_of(tuple(self._notified_lists())), connection.peer.revision
        channel = client.channel
        assert channel is not None
        entry = Subscription(channel, revision, lists, dict(subscriptions), client=client)
        self.runtime.hub.open(entry)
        self._guard(entry, subscriptions, connection)
        entry.save = getattr(channel, "save_subscription", None)
        self.runtime.hub.sessions[connection] = entry

    def catch_up(self, connection: ServerProtocol, changes: Sequence[Changed] | None) -> None:
        """Notify a client of earlier changes to its subscriptions. With None, notify of all subscriptions."""
        hub = self.runtime.hub
        entry = hub.sessions.get(connection)
        if entry is None:
            return
        if changes is None:
            hub.resync(entry)
        else:
            for changed in changes:
                hub.catch_up(entry, {uri: changed.entries.get(uri) for uri in changed.uris}, changed.lists)

    def take_subscription(self, connection: ServerProtocol, uri: str, spelled: str | None) -> None:
        """Subscribe a session to a resource, or (None) unsubscribe it, as requested on another replica."""
        entry = self.runtime.hub.sessions.get(connection)
        if entry is not None:
            save, entry.save = entry.save, None  # it is stored already
            try:
                if spelled is None:
                    self.runtime.hub.unsubscribe(entry, uri)
                else:
                    self.runtime.hub.subscribe(entry, uri, spelled)
                    self._guard(entry, (uri,), connection)
            finally:
                entry.save = save

    def _guard(self, entry: Subscription, uris: Iterable[str], connection: ServerProtocol) -> None:
        if self.catalog.guards or self.runtime.hub.gate is not None:
            from carrel.server.guards import guard_session  # few servers need it

            guard_session(self.catalog, entry, uris, connection)

    def _observe(self) -> None:
        """Trace and measure requests with OpenTelemetry, if the process has set up its SDK."""
        from carrel.server import telemetry

        if telemetry.is_configured() and not self._is_observed and not self.runtime.is_mounted:
            self._dispatch.add_middleware(telemetry.middleware(self.description.info.version))
            self._is_observed = True


def _ignore(response: ErrorResponse) -> None:
    """Ignore a rejected request, as there are no observers."""


def _refuse(call: Call, error: BaseException) -> ErrorResponse:
    return call.connection.reject(call, error)
