"""Runtime of a server: the parts that its registries, handlers and contexts share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from carrel.catalog.access import RenamedView
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import (
    Change,
    Contexts,
    ListChanges,
    ListName,
    Provider,
    Recipients,
    UriChanges,
    list_changes,
    uri_changes,
)
from carrel.errors import ConfigError
from carrel.limits import FIXED, Budget, Limits
from carrel.protocol.description import Description
from carrel.server.options import ServerSettings
from carrel.server.subscriptions import LISTS, Hub
from carrel.uri.parse import canonical

if TYPE_CHECKING:
    from carrel.awaitables import MaybeAwaitable
    from carrel.catalog.access import NameMapping
    from carrel.protocol.channel import Channel
    from carrel.protocol.extension import Extension
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call, Reply, ServerProtocol
    from carrel.server.elicitation.request_state import Exchanges, RequestStateCipher
    from carrel.server.session_state import SessionState
    from carrel.server.tasks.tasks import ServerTasks
    from carrel.state.interfaces import State as SharedState
    from carrel.state.records import Changed
    from carrel.state.replica import Replica
    from carrel.threads import ThreadPool
    from carrel.transports.server.route import Route
    from carrel.wire.base import Result

__all__ = ["Listener", "Operation", "Runtime"]

T = TypeVar("T")
Listener: TypeAlias = "Callable[[Sequence[Change], ListChanges, Recipients | None], None]"
Seen: TypeAlias = Literal["here", "everywhere"]

#: Seconds that threads get to finish when the server stops.
CLEANUP = 1.0


class Operation(Protocol):
    """Handler of the requests of one operation. Returns a result, or an awaitable of one.

    A result is an object, or its encoding. The handler of a long-lived stream returns a future of the whole response.
    """

    def __call__(self, call: Call, channel: Channel, /) -> MaybeAwaitable[Result | Reply]: ...


class Runtime:
    """Settings and services of one server. ``app.endpoint.runtime`` is one."""

    def __init__(
        self,
        description: Description,
        settings: ServerSettings,
        limits: Limits,
    ) -> None:
        self.description = description
        self.settings = settings
        self.state: Any = None
        """Value that the lifespan of the server has yielded."""
        self.hub = Hub()
        self.catalog = Catalog(self.published)
        self.operations: dict[str, Operation] = {}
        self.operations_changed: Callable[[], None] = lambda: None
        """Called when an extension has added operations."""
        """Handlers of requests, by operation name."""
        self.extensions: dict[str, dict[str, Any]] = {}
        """Settings of the extensions of the server, by name."""
        self.sessions: dict[ServerProtocol, SessionState] = {}
        """Sessions that handlers use, until their connections are closed."""
        self.listeners: list[Listener] = []
        """Called with every change, in the event loop of the server: the catalogs in which it is a provider."""
        self.contexts: Contexts | None = None
        """Gives providers the context of a request; set by the server."""
        self.routes: list[Route] = []
        """HTTP routes that are served beside the MCP endpoint."""
        self.dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """Factories of dependencies that replace others, for example in tests."""
        self.has_own_authorization: Callable[[], bool] = lambda: False
        """Whether the program has an authorization for this server, which holds where the program itself serves it."""
        self._mounted: list[Runtime] = []
        self._outer: Runtime | None = None
        self._on_extend: Callable[[Extension], None] | None = None
        self.names: NameMapping | None = None
        """The namespace in which another server has this one; None without one."""
        self._replica: Replica | None = None
        self._tasks: ServerTasks | None = None
        self._state_cipher: RequestStateCipher | None = None
        self._exchanges: Exchanges | None = None
        self._threads: ThreadPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self.limits = msgspec.structs.replace(limits)
        """The limits of the server, which its transports read at each use. ``change_limits`` writes them."""
        self.budget = Budget(limits.max_kept_bytes, limits.max_kept_bytes_per_client)
        self.slow_handler_seconds = limits.slow_handler_seconds

    def change_limits(self, limits: Limits) -> None:
        """Change the limits for later requests.

        Raises:
            ConfigError: a limit cannot change while the server runs; no limit is changed then.
        """
        if self.is_running:
            fixed = [name for name in FIXED if getattr(limits, name) != getattr(self.limits, name)]
            if fixed:
                raise ConfigError(f"these limits cannot change while the server is running: {', '.join(fixed)}")
        for name in limits.__struct_fields__:
            msgspec.structs.force_setattr(self.limits, name, getattr(limits, name))
        self.budget.limit(limits.max_kept_bytes, limits.max_kept_bytes_per_client)
        self.slow_handler_seconds = limits.slow_handler_seconds
        if self._threads is not None:
            self._threads.limit(*_threads_of(limits))

    # Running

    @property
    def is_running(self) -> bool:
        """Whether the server is running."""
        return self._loop is not None

    @property
    def is_mounted(self) -> bool:
        """Whether the server is a provider of another one."""
        return self._outer is not None

    def check_loop(self) -> None:
        """Check that the server does not run in another event loop.

        Raises:
            ConfigError: it does.
        """
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise ConfigError(f"the server {self.description.info.name} is running already, in another event loop")

    def start(self) -> None:
        """Begin to run in the current event loop.

        Raises:
            ConfigError: it is running already.
        """
        if self._loop is not None:
            raise ConfigError(f"the server {self.description.info.name} is running already")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    async def finish_tasks(self, seconds: float) -> None:
        """Wait for running tasks for at most so many seconds, if replicas share the state, and have their results.

        Work for clients of other replicas may end too.
        """
        replica = self._replica
        if replica is not None and replica.shared:
            tasks = [replica.connections.finish(seconds)]
            if self._tasks is not None:
                tasks.append(self._tasks.finish(seconds))
            await asyncio.gather(*tasks)

    async def stop(self) -> None:
        """Stop the tasks and threads, and stop publishing changes."""
        if self._tasks is not None:
            await self._tasks.stop()
        threads, self._threads = self._threads, None
        if threads is not None:
            await threads.close(CLEANUP)
        self._loop = None
        self.hub.shut()

    @property
    def threads(self) -> ThreadPool:
        """Thread pool of functions without ``async``. Threads are started when they are needed."""
        if self._threads is None:
            from carrel.threads import ThreadPool

            self._threads = ThreadPool(*_threads_of(self.limits), "carrel-handler")
        return self._threads

    @property
    def busy_threads(self) -> int:
        """How many threads run functions now."""
        return 0 if self._threads is None else self._threads.busy

    async def run_in_thread(self, call: Call, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Run a plain function in a thread on behalf of a client, and return its result.

        Raises:
            ServerUnavailable: too many calls of the client wait for a thread.
        """
        return await self.threads.run(call.client.key, function, *arguments, **named)

    @property
    def tasks(self) -> ServerTasks:
        """Tasks of the server. The first access creates them and declares the tasks capability."""
        if self._outer is not None:
            return self._outer.tasks
        if self._tasks is None:
            from carrel.server.tasks.tasks import ServerTasks

            self._tasks = ServerTasks(self)
        return self._tasks

    @property
    def has_tasks(self) -> bool:
        """Whether any tool call can become a task."""
        return self._tasks is not None if self._outer is None else self._outer.has_tasks

    def join(self, outer: Runtime, on_extend: Callable[[Extension], None]) -> None:
        """Use the tasks and request states of another server, in whose catalog this one is.

        ``on_extend`` is called with each extension that is registered from now on.
        """
        self._outer = outer
        self._on_extend = on_extend
        outer._mounted.append(self)

    def unprotected(self) -> Iterator[str]:
        """Yield the names of servers, this one and the ones in its catalog, whose own authorization does not hold."""
        if self.has_own_authorization():
            yield self.description.info.name
        for each in self._mounted:
            yield from each.unprotected()

    def session_of(self, call: Call) -> SessionState:
        """Return the session of a call, for handlers of this server and of those mounted in it."""
        if self._outer is not None:
            return self._outer.session_of(call)
        connection = call.connection
        found = self.sessions.get(connection)
        if found is None:
            from carrel.server.session_state import SessionState  # loaded on first use

            replica = self.replica if call.client.shared else None
            found = SessionState(call.client, replica, lambda: self.limits.max_session_state_bytes)
            if connection in self.hub.sessions:  # not closed meanwhile
                self.sessions[connection] = found
            else:
                found.close()
        return found

    def view_of(self, call: Call) -> View | None:
        """Return the rights of a call's caller, for the URIs and names of this server."""
        view = call.view if self._outer is None else self._outer.view_of(call)
        return view if view is None or self.names is None else RenamedView(view, self.names)

    # Extensions

    def extend(
        self, extension: Extension, operations: Mapping[str, Operation], settings: dict[str, Any] | None = None
    ) -> None:
        """Register a protocol extension (see ``Server.extend``).

        Raises:
            ConfigError: one of its methods is taken, or has no handler.
        """
        known = self.operations
        for row in extension.requests.values():
            if row.operation not in operations and row.operation not in known:
                raise ConfigError(f"{extension.name}: there is no handler of {row.method}")
        taken = [name for name, handler in operations.items() if known.get(name, handler) != handler]
        if taken and extension.name not in self.extensions:
            raise ConfigError(f"{extension.name}: there are operations called {', '.join(taken)} already")
        self.description.extend(extension)
        known.update(operations)
        self.extensions[extension.name] = settings or {}
        self.operations_changed()
        if self._on_extend is not None:
            self._on_extend(extension)

    # Changes

    def notify(
        self,
        uris: Iterable[str] | UriChanges = (),
        lists: Iterable[ListName] | ListChanges = (),
        *,
        seen: Seen = "here",
        recipients: Recipients | None = None,
        provider: str = "",
    ) -> None:
        """Notify subscribers that resources or lists changed. May be called from any thread, and at any time.

        ``seen`` is "everywhere" for changes that each replica sees itself; changes seen "here" are published to the
        others. ``recipients`` are the only clients to notify, if it is not all; they are known to this process alone.
        ``provider`` is the name of the provider that this replica watches for all, if it has reported the changes.
        """
        loop = self._loop
        if loop is None:
            return
        shared = seen == "here" and recipients is None and self._replica is not None and self._replica.shared
        publish = partial(self._publish, provider=provider) if shared else partial(self._see, recipients=recipients)
        uris, lists = uri_changes(uris), list_changes(lists)
        if threading.get_ident() == self._thread:
            publish(uris, lists)
            return
        try:
            loop.call_soon_threadsafe(publish, uris, lists)
        except RuntimeError:  # the loop was closed meanwhile: there are no subscribers any more
            pass

    def seen(self, provider: Provider) -> Seen:
        """Return whether the other replicas see the changes of a provider too."""
        if provider.changes == "machine":
            return "everywhere" if self.replica.state.on_one_machine else "here"
        return provider.changes

    @property
    def replica(self) -> Replica:
        """This server among its replicas, with the state that they share. The default state is in memory."""
        if self._replica is None:
            from carrel.state.records import Changed, Gap
            from carrel.state.replica import Replica

            self._replica = Replica(self._make_state())
            self._replica.on(Changed, self._take)
            self._replica.on(Gap, lambda gap: self.hub.resync_all(gap.since))
        return self._replica

    @property
    def outer_replica(self) -> Replica:
        """The outermost server among its replicas, if this one is mounted in another."""
        return self.replica if self._outer is None else self._outer.outer_replica

    def share_state(self, state: SharedState | str, keys: tuple[bytes, ...]) -> None:
        """Replace the store and the keys of the settings by a store of shared state and its keys."""
        if isinstance(state, str):
            state = self._open_state(state, keys)
        self.settings = msgspec.structs.replace(self.settings, state=state, state_keys=keys)
        if self._replica is not None:  # a tool that runs as a task has been registered
            self._replica.state = state

    @staticmethod
    def _open_state(url: str, keys: tuple[bytes, ...]) -> SharedState:
        from carrel.state.redis.state import RedisState

        return RedisState(url, keys)

    def _make_state(self) -> SharedState:
        state = self.settings.state
        if state is None:
            from carrel.state.memory import MemoryState

            return MemoryState()
        if isinstance(state, str):
            return self._open_state(state, self.settings.state_keys)
        return state

    def _publish(self, uris: UriChanges, lists: ListChanges, provider: str) -> None:
        """Publish changes to all replicas, this one too."""
        from carrel.state.records import Changed

        self.replica.publish(Changed(list(uris), _recorded(lists), _entries(uris), provider))

    def _take(self, notice: Changed) -> None:
        """Notify subscribers here of changes on the bus."""
        lists: ListChanges = {name: notice.lists[name] for name in LISTS if name in notice.lists}
        uris: UriChanges = {uri: notice.entries.get(uri) for uri in notice.uris}
        self._notify(uris, lists, self.replica.position - 1)

    def _see(self, uris: UriChanges, lists: ListChanges, recipients: Recipients | None = None) -> None:
        """Notify subscribers here of changes that are not on the bus, and keep those for clients that reconnect."""
        since = 0
        if self._replica is not None:
            from carrel.state.records import Changed

            shared, hub = self._replica.shared, self.hub
            noted = uris if shared else hub.touched(uris)
            heard = {name: keys for name, keys in lists.items() if shared or hub.hears(name)}
            changed = Changed(list(noted), _recorded(heard), _entries(noted))
            since = self._replica.position
            if changed.uris or changed.lists:
                self._replica.record(changed)
        self._notify(uris, lists, since, recipients)

    def _notify(self, uris: UriChanges, lists: ListChanges, since: int, recipients: Recipients | None = None) -> None:
        for listener in self.listeners:
            changes = [Change("changed", uri, tuple(entries or ())) for uri, entries in uris.items()]
            listener(changes, lists, recipients)
        shown = lists if self.settings.list_changed else {}
        self.hub.changed(uris if self.settings.subscribe else {}, shown, since, recipients)

    def position(self) -> int:
        """Return the position of the bus up to which all changes were sent to their subscribers here."""
        unsent = self.hub.unsent_since
        replica = self.replica if self._replica is None else self._replica  # called for each event of thousands
        return replica.position if unsent is None else min(unsent, replica.position)

    def published(
        self,
        changes: Iterable[Change],
        lists: ListChanges,
        *,
        seen: Seen = "everywhere",
        recipients: Recipients | None = None,
        provider: str = "",
    ) -> None:
        """Notify subscribers of changes that a provider reports. May be called from any thread."""
        changes, listed = list(changes), dict(lists)
        entries = [canonical(change.uri) for change in changes if change.kind != "changed"]
        known = listed.get("resources_list_changed", ())
        if entries and known is not None:
            listed["resources_list_changed"] = [*known, *entries]
        uris: dict[str, Collection[str] | None] = {}
        for change in changes:
            uri = canonical(change.uri)
            before = uris.get(uri, ())
            uris[uri] = None if before is None or not change.entries else [*before, *change.entries]
        self.notify(uris, listed, seen=seen, recipients=recipients, provider=provider)

    # State of multi round-trip requests

    @property
    def state_cipher(self) -> RequestStateCipher:
        """Cipher of the ``requestState`` that stateless clients keep for the server."""
        if self._outer is not None:
            return self._outer.state_cipher
        if self._state_cipher is None:
            from carrel.server.elicitation.request_state import RequestStateCipher

            keys, ttl = self.settings.state_keys, self.settings.state_ttl
            self._state_cipher = RequestStateCipher(keys, ttl, self.replica.state.now)
        return self._state_cipher

    @property
    def exchanges(self) -> Exchanges:
        """Multi round-trip requests of stateless clients: answered with input requests, and repeated with responses."""
        if self._outer is not None:
            return self._outer.exchanges
        if self._exchanges is None:
            from carrel.server.elicitation.request_state import Exchanges

            self._exchanges = Exchanges(self.replica, self.budget, self.settings.state_ttl)
        return self._exchanges


def _recorded(lists: ListChanges) -> dict[str, list[str] | None]:
    """Return changes of lists as they are recorded."""
    return {name: None if keys is None else list(keys) for name, keys in lists.items()}


def _entries(uris: UriChanges) -> dict[str, list[str]]:
    """Return the changed entries of directories as they are recorded."""
    return {uri: list(entries) for uri, entries in uris.items() if entries is not None}


def _threads_of(limits: Limits) -> tuple[int, int, int]:
    """Return the limits of the thread pool: threads, threads of one client, and calls of one that wait for them."""
    most = min(limits.max_threads, limits.max_threads_per_client)
    return limits.max_threads, most, limits.max_waiting_for_threads_per_client
