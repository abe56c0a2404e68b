"""Runtime of a server: the parts that its registries, handlers and contexts share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from carrel.catalog.access import RenamedView
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Change, Contexts, ListName
from carrel.errors import ConfigError
from carrel.limits import Budget, Limits
from carrel.protocol.server import Description
from carrel.server.subscriptions import LISTS, Hub
from carrel.uri.parse import canonical

if TYPE_CHECKING:
    from carrel.catalog.access import Names
    from carrel.protocol.channel import Channel
    from carrel.protocol.extension import Extension
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call, Connection
    from carrel.server.elicitation.request_state import Exchanges, RequestStateCipher
    from carrel.state.interfaces import State as SharedState
    from carrel.state.replica import Replica
    from carrel.threads import ThreadPool

__all__ = ["Operation", "Runtime", "Session"]

T = TypeVar("T")
Seen: TypeAlias = Literal["here", "everywhere"]

#: Seconds that threads get to finish when the server stops.
CLEANUP = 1.0


class Operation(Protocol):
    """Handler of the requests of one operation. Returns a result, the encoded result, or an awaitable of one."""

    def __call__(self, call: Call, channel: Channel, /) -> Any: ...


class Tasks(Protocol):
    """Tasks of a server, as the other parts of it use them; ``carrel.server.tasks`` has the implementation."""

    def honored(self, call: Call, ids: list[str]) -> list[str] | Awaitable[list[str]]:
        """Return the ids of tasks that a client may listen to."""

    def update(self, task: Any, status: Any, message: str | None = None) -> None:
        """Set the status of a task, and notify those who listen to it."""

    async def ask(self, task: Any, questions: Any) -> list[Any]:
        """Put questions to the client of a task, and return its answers."""

    async def stop(self) -> None:
        """Cancel all tasks."""


class Session:
    """Session of a client, for handlers. ``id`` is that of a session over HTTP, empty on stdio.

    ``values`` are the handlers' own, in the memory of this process for as long as the session is open.
    """

    __slots__ = ("id", "values")

    def __init__(self, id: str) -> None:
        self.id = id
        self.values: dict[str, object] = {}


class Runtime:
    """Settings and services of one server. ``app.runtime`` is one.

    ``offers_subscriptions`` and ``list_changed`` say whether clients are notified of changes to resources and lists.
    ``make_tasks`` makes the tasks of the server when they are needed.
    """

    def __init__(
        self,
        description: Description,
        *,
        page_size: int,
        limits: Limits,
        mask_errors: bool,
        offers_subscriptions: bool,
        list_changed: bool,
        state_keys: Sequence[bytes],
        state_ttl: float,
        make_tasks: Callable[[Runtime], Tasks],
        shared_state: SharedState | None = None,
    ) -> None:
        if page_size < 1:
            raise ConfigError(f"page_size must be at least 1, not {page_size}")
        if any(len(key) != 32 for key in state_keys):
            raise ConfigError("A key of request states has 32 bytes")
        if state_ttl <= 0:
            raise ConfigError(f"state_ttl must be more than 0 seconds, not {state_ttl}")
        self.description = description
        self.page_size = page_size
        self.mask_errors = mask_errors
        self.offers_subscriptions = offers_subscriptions
        self.list_changed = list_changed
        self.state: Any = None
        """Value that the lifespan of the server has yielded."""
        self.state_ttl = state_ttl
        self.hub = Hub()
        self.catalog = Catalog(self.published)
        self.operations: dict[str, Operation] = {}
        """Handlers of requests, by operation name."""
        self.extensions: dict[str, dict[str, Any]] = {}
        """Settings of the extensions of the server, by name."""
        self.sessions: dict[Connection, Session] = {}
        """Sessions that handlers have asked for, until their connections are closed."""
        self.listeners: list[Callable[[Sequence[Change], Sequence[ListName]], None]] = []
        """Called with every change, in the event loop of the server: the catalogs in which it is a provider."""
        self.contexts: Contexts | None = None
        """Gives providers the context of a request; set by the server."""
        self._outer: Runtime | None = None
        self.names: Names | None = None
        """The namespace in which another server has this one; None without one."""
        self.shared_state = shared_state
        self._replica: Replica | None = None
        self._make_tasks = make_tasks
        self._tasks: Tasks | None = None
        self._state_keys = tuple(state_keys)
        self._state_cipher: RequestStateCipher | None = None
        self._exchanges: Exchanges | None = None
        self._threads: ThreadPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self.limits = limits

    @property
    def limits(self) -> Limits:
        """The limits of the server. They can be replaced until a transport is set up."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self.budget = Budget(limits.max_kept_bytes, limits.max_kept_bytes_per_client)
        self.slow_handler_seconds = limits.slow_handler_seconds

    # Running

    @property
    def is_running(self) -> bool:
        """Whether the server is running."""
        return self._loop is not None

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

    async def stop(self) -> None:
        """Stop the tasks and threads; nothing is announced any more."""
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

            limits = self._limits
            self._threads = ThreadPool(
                limits.max_threads,
                min(limits.max_threads, limits.max_threads_per_client),
                limits.max_waiting_for_threads_per_client,
                "carrel-handler",
            )
        return self._threads

    async def run_in_thread(self, call: Call, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Run a plain function in a thread on behalf of a client, and return its result.

        Raises:
            ServerUnavailable: too many calls of the client wait for a thread.
        """
        return await self.threads.run(call.connection.client, function, *arguments, **named)

    @property
    def tasks(self) -> Tasks:
        """Tasks of the server. The first access creates them and declares the tasks capability."""
        if self._outer is not None:
            return self._outer.tasks
        if self._tasks is None:
            self._tasks = self._make_tasks(self)
        return self._tasks

    @property
    def has_tasks(self) -> bool:
        """Whether any tool call can become a task."""
        return self._tasks is not None if self._outer is None else self._outer.has_tasks

    def join(self, outer: Runtime) -> None:
        """Use the tasks and request states of another server, in whose catalog this one is."""
        self._outer = outer

    def session_of(self, connection: Connection) -> Session:
        """Return the session on a connection, for handlers of this server and of those mounted in it."""
        if self._outer is not None:
            return self._outer.session_of(connection)
        found = self.sessions.get(connection)
        if found is None:
            found = Session(connection.id)
            if connection in self.hub.sessions:  # not closed meanwhile
                self.sessions[connection] = found
        return found

    def view_of(self, call: Call) -> View | None:
        """Return the rights of the caller of a request, to be asked with the URIs and names of this server."""
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

    # Changes

    def announce(self, uris: Iterable[str] = (), lists: Iterable[ListName] = (), *, seen: Seen = "here") -> None:
        """Notify subscribers that resources or lists changed. May be called from any thread, and at any time.

        ``seen`` is "everywhere" for changes that each replica sees itself; those seen "here" it publishes to others.
        """
        loop = self._loop
        if loop is None:
            return
        shared = seen == "here" and self._replica is not None and self._replica.shared
        tell = self._publish if shared else self._announce
        if threading.get_ident() == self._thread:
            tell(uris, lists)
            return
        try:
            loop.call_soon_threadsafe(tell, list(uris), list(lists))
        except RuntimeError:  # the loop was closed meanwhile: there are no subscribers any more
            pass

    @property
    def replica(self) -> Replica:
        """This server among its replicas, with the state that they share. The default state is in memory."""
        if self._replica is None:
            from carrel.state.records import Changed, Gap
            from carrel.state.replica import Replica

            state = self.shared_state
            if state is None:
                from carrel.state.memory import MemoryState

                state = MemoryState()
            self._replica = Replica(state)
            self._replica.on(
                Changed, lambda notice: self._announce(notice.uris, [name for name in LISTS if name in notice.lists])
            )
            self._replica.on(Gap, lambda _: self.hub.resync_all())
        return self._replica

    def _publish(self, uris: Iterable[str], lists: Iterable[ListName]) -> None:
        """Publish changes to all replicas, this one too."""
        from carrel.state.records import Changed

        self.replica.publish(Changed(list(uris), list(lists)))

    def _announce(self, uris: Iterable[str], lists: Iterable[ListName]) -> None:
        if self.listeners:
            uris, lists = list(uris), list(lists)
            for listener in self.listeners:
                listener([Change("changed", uri) for uri in uris], lists)
        self.hub.changed(uris if self.offers_subscriptions else (), lists if self.list_changed else ())

    def published(self, changes: Iterable[Change], lists: Iterable[ListName], *, seen: Seen = "everywhere") -> None:
        """Notify subscribers of changes that a provider reports. May be called from any thread."""
        changes = list(changes)
        listed = set(lists)
        if any(change.kind != "changed" for change in changes):
            listed.add("resources_list_changed")
        self.announce([canonical(change.uri) for change in changes], sorted(listed), seen=seen)

    # State of multi round-trip requests

    @property
    def state_cipher(self) -> RequestStateCipher:
        """Cipher of the ``requestState`` that stateless clients keep for the server."""
        if self._outer is not None:
            return self._outer.state_cipher
        if self._state_cipher is None:
            from carrel.server.elicitation.request_state import RequestStateCipher

            self._state_cipher = RequestStateCipher(self._state_keys, self.state_ttl)
        return self._state_cipher

    @property
    def exchanges(self) -> Exchanges:
        """Multi round-trip requests of stateless clients: answered with questions, and repeated with answers."""
        if self._outer is not None:
            return self._outer.exchanges
        if self._exchanges is None:
            from carrel.server.elicitation.request_state import Exchanges

            self._exchanges = Exchanges(self.replica.state.used, self.budget, self.state_ttl)
        return self._exchanges
