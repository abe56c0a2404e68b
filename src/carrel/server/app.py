"""MCP server application: registers resources, tools and prompts, and answers requests.

    app = Server("books", version="1.0")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

The folder `examples` has one of these for each feature.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from msgspec import UNSET

from carrel.errors import (
    ConfigError,
    MethodNotFound,
    ResourceForbidden,
)
from carrel.limits import Budget, Limits
from carrel.log import Log
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import Connection, Description, Refusal
from carrel.server.completion import CompletableFunction
from carrel.server.context import CLIENT
from carrel.server.elicitation.input_required import InputRequired, abandon, required_by, take_answer, withdraw
from carrel.server.failures import is_interrupt, told
from carrel.server.metadata import Meta, icons_of, or_unset
from carrel.server.operations import operations_of
from carrel.server.prompts import Prompts
from carrel.server.resources import Resources
from carrel.server.subscriptions import LISTS, Hub, Subscription
from carrel.server.tools import TaskSupport, Tools
from carrel.wire.base import Annotations, Icon, Implementation, Result
from carrel.wire.lifecycle import ListChanged, ResourcesCapability, ServerCapabilities
from carrel.wire.resources import BlobResourceContents, ReadResourceResult, TextResourceContents
from carrel.wire.tools import ToolAnnotations

if TYPE_CHECKING:
    from pathlib import Path

    from carrel.protocol.channel import Channel
    from carrel.protocol.extension import Extension
    from carrel.protocol.server import Answer, Call
    from carrel.server.context import Context
    from carrel.server.elicitation.request_state import Exchanges, RequestStateCipher
    from carrel.server.skills import Skills
    from carrel.server.source import Source
    from carrel.server.tasks.tasks import Tasks
    from carrel.server.watching import Following
    from carrel.state.interfaces import State
    from carrel.state.replica import Replica
    from carrel.threads import ThreadPool
    from carrel.wire.apps import PageSecurity

__all__ = ["Server"]

TASKS_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
#: Seconds that threads get to finish when the server stops.
CLEANUP = 1.0

Seen: TypeAlias = Literal["here", "everywhere"]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Hook = Callable[[], Awaitable[None] | None]
log = Log("carrel")


class Server:
    """MCP server application: registry of resources, tools, prompts and sources, and handler of requests.

    ``page_size`` is the number of entries per page of a list. ``subscribe`` and ``list_changed`` enable notifications
    of changes to resources and to lists. ``ttl`` (seconds) and ``scope`` are the default cache hints of results.
    ``lifespan`` is called with the server and returns an asynchronous context manager that is entered at start-up and
    left at shutdown; the value that it yields is ``app.state``. ``state_ttl`` is how long clients may take to answer
    an elicitation, sampling or roots request, in seconds. ``state_keys`` (32 bytes each; the first one encrypts, all
    of them decrypt) protect the ``requestState`` of stateless clients; replicas have to share them, one process makes
    its own. ``limits`` hold for every transport (docs/limits.md). With ``mask_errors``, models get the message of an
    exception of a tool only if it is a ToolError; otherwise they get a reference to the log. ``state`` is the store of
    sessions, streams and tasks that replicas share; without it, they are in the memory of this process (docs/scale.md).

    Raises:
        ConfigError: an argument makes no sense.
    """

    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        page_size: int = 100,
        subscribe: bool = True,
        list_changed: bool = True,
        ttl: float = 0,
        scope: Literal["public", "private"] = "private",
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        state_keys: Sequence[bytes] = (),
        state_ttl: float = 600.0,
        limits: Limits | None = None,
        mask_errors: bool = False,
        state: State | None = None,
    ) -> None:
        if not name:
            raise ConfigError("A server needs a name")
        if page_size < 1:
            raise ConfigError(f"page_size must be at least 1, not {page_size}")
        if ttl < 0:
            raise ConfigError(f"ttl must be 0 or more seconds, not {ttl}")
        if scope not in ("public", "private"):
            raise ConfigError(f"scope must be 'public' or 'private', not {scope!r}")
        self.name = name
        self.page_size = page_size
        self.limits = limits or Limits()
        self.mask_errors = mask_errors
        self.state: Any = None
        self.resources = Resources(self)
        self.tools = Tools(self)
        self.prompts = Prompts(self)
        self.hub = Hub()
        self.description = Description(
            Implementation(
                name,
                version,
                title=or_unset(title),
                description=or_unset(description),
                website_url=or_unset(website_url),
                icons=icons_of(icons),
            ),
            self.capabilities,
            instructions=or_unset(instructions),
            ttl_ms=round(ttl * 1000),
            scope=scope,
        )
        self.offers_subscriptions = subscribe
        self._list_changed = list_changed
        self._lifespan = lifespan
        if any(len(key) != 32 for key in state_keys):
            raise ConfigError("A key of request states has 32 bytes")
        if state_ttl <= 0:
            raise ConfigError(f"state_ttl must be more than 0 seconds, not {state_ttl}")
        self.state_ttl = state_ttl
        self._state_keys = tuple(state_keys)
        self._state_cipher: RequestStateCipher | None = None
        self._exchanges: Exchanges | None = None
        self._shared_state = state
        self._replica: Replica | None = None
        self._tasks: Tasks | None = None
        self._threads: ThreadPool | None = None
        self._on_startup: list[Hook] = []
        self._on_shutdown: list[Hook] = []
        self._shared: list[Source] = []
        self._stack: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._watchers: set[asyncio.Task[None]] = set()
        self._acknowledging: set[asyncio.Task[None]] = set()
        self.forming: set[Following] = set()
        """Watches of sources that do not listen for changes yet."""
        self._operations = operations_of(self)
        self._extensions: dict[str, dict[str, Any]] = {}
        self._skills: Skills | None = None
        # Operations refused where nothing of their kind is registered; lists are answered all the same, empty.
        kinds: dict[str | None, Resources | Tools | Prompts]
        kinds = {"prompts": self.prompts, "resources": self.resources, "tools": self.tools}
        self._needs = {
            row.operation: kinds[row.capability]
            for row in REQUESTS.values()
            if row.capability in kinds and row.verb != "list"
        }

    @property
    def limits(self) -> Limits:
        """The limits of this server. They can be replaced until a transport is set up."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self.budget = Budget(limits.max_kept_bytes, limits.max_kept_bytes_per_client)
        self.slow_handler_seconds = limits.slow_handler_seconds

    # Registration

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | dict[str, Any] | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        ttl: float | None = None,
        scope: str | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], CompletableFunction[F]]:
        """Register the decorated function as a resource, or as a template where ``uri`` is a URI template (RFC 6570).

        The variables of the template are the function's parameters, typed by its annotations. It returns what
        ``resources.add`` takes as a value; None means that there is no such resource. ``size`` is in bytes, ``ttl`` in
        seconds, ``annotations`` are audience, priority (0 to 1) and last_modified (ISO 8601).

        Raises:
            ConfigError: the URI or template is not valid or taken, or the function does not take its variables.
        """
        return self.resources.resource(
            uri,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
            size=size,
            annotations=annotations,
            icons=icons,
            ttl=ttl,
            scope=scope,
            meta=meta,
        )

    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | dict[str, Any] | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        structured: bool | None = None,
        mask_errors: bool | None = None,
        task: TaskSupport = "forbidden",
        detaches: bool = False,
        ui: str | None = None,
        visibility: Iterable[str] | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], F]:
        """Register the decorated function as a tool. See ``tools.add``."""
        if callable(name):
            raise ConfigError("Write @app.tool() with parentheses")

        def register(function: F) -> F:
            return self.tools.add(
                function,
                name=name,
                title=title,
                description=description,
                annotations=annotations,
                icons=icons,
                input_schema=input_schema,
                output_schema=output_schema,
                structured=structured,
                mask_errors=mask_errors,
                task=task,
                detaches=detaches,
                ui=ui,
                visibility=visibility,
                meta=meta,
            )

        return register

    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], CompletableFunction[F]]:
        """Register the decorated function as a prompt. See ``prompts.add``."""
        if callable(name):
            raise ConfigError("Write @app.prompt() with parentheses")

        def register(function: F) -> CompletableFunction[F]:
            return self.prompts.add(function, name=name, title=title, description=description, icons=icons, meta=meta)

        return register

    def share(self, source: Source | str) -> None:
        """Share a source: a path, a URL, or an implementation of the protocol ``carrel.server.source.Source``.

        Raises:
            ConfigError: it is not clear what the path or URL names, or its driver is not installed.
        """
        if self._loop is not None:
            raise ConfigError("share sources before the server starts")
        if isinstance(source, str):
            from importlib import import_module

            source = cast("Source", import_module("carrel.sources").open(source))
        self._shared.append(source)
        self.resources.used = True

    def ui(
        self,
        uri: str,
        html: str | Path,
        *,
        csp: PageSecurity | dict[str, Any] | None = None,
        permissions: Iterable[str] = (),
        domain: str | None = None,
        prefers_border: bool | None = None,
        **details: Any,
    ) -> None:
        """Register a page that hosts show for tools (MCP Apps): HTML, or the Path of a file, read anew each time.

        ``csp`` are the origins that the page may use: connect_domains, resource_domains, frame_domains and
        base_uri_domains, none of them by default. ``permissions`` are camera, microphone, geolocation and
        clipboard_write. ``domain`` is an origin of its own, in the form that the host wants; ``prefers_border`` asks
        for a border, or for none. ``details`` are those of ``resources.add``. Tools refer to it with ``ui=uri``.

        Raises:
            ConfigError: the URI does not begin with ui://, or is taken, or something is not known.
        """
        from carrel.server.apps import add_page, page_meta

        add_page(self, uri, html, page_meta(csp, permissions, domain, prefers_border), details)

    def skills(self, *folders: str | os.PathLike[str], **options: Any) -> None:
        """Serve the Agent Skills in folders: directories with a SKILL.md, each file of them as a ``skill:`` resource.

        The options are ``exclude``, ``hidden``, ``follow_symlinks`` and ``gitignore``, as those of a folder that is
        shared. With this, clients can also look into the directories of everything that is shared, and even without
        folders. See docs/skills.md.

        Raises:
            ConfigError: the server is running.
        """
        if self._loop is not None:
            raise ConfigError("serve skills before the server starts")
        if self._skills is None:
            from carrel.server.skills import Skills

            self._skills = Skills(self)
        if folders:
            self._skills.add(*folders, **options)

    def extend(
        self,
        extension: Extension,
        operations: Mapping[str, Callable[[Call, Channel], Any]],
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Register a protocol extension.

        ``operations`` are the handlers of its methods, by operation name; each returns a ``Result`` or an awaitable of
        one. ``settings`` are its value in the ``extensions`` capability.

        Raises:
            ConfigError: one of its methods is taken, or has nothing that answers it.
        """
        known = self._operations
        for row in extension.requests.values():
            if row.operation not in operations and row.operation not in known:
                raise ConfigError(f"{extension.name}: nothing answers {row.method}")
        taken = [name for name, answer in operations.items() if known.get(name, answer) != answer]
        if taken and extension.name not in self._extensions:
            raise ConfigError(f"{extension.name}: there are operations called {', '.join(taken)} already")
        self.description.extend(extension)
        known.update(operations)
        self._extensions[extension.name] = settings or {}

    def mirror_tools(self) -> None:
        """Register read-only tools over the resources, for hosts whose model cannot see resources."""
        from carrel.server.resources_as_tools import mirror

        mirror(self)

    def on_startup(self, hook: Hook) -> Hook:
        """Register ``hook`` to be called when the server starts. Also a decorator."""
        self._on_startup.append(hook)
        return hook

    def on_shutdown(self, hook: Hook) -> Hook:
        """Register ``hook`` to be called when the server stops. Also a decorator."""
        self._on_shutdown.append(hook)
        return hook

    # Running

    def run(self, transport: Literal["stdio", "http"] = "stdio", **options: Any) -> None:
        """Serve until the client closes the connection (stdio) or the process is told to stop (HTTP).

        Over HTTP, ``host`` ("127.0.0.1"), ``port`` (8000) and ``path`` ("/mcp") say where; ``asgi`` takes the rest.
        """
        if transport == "stdio":
            from carrel.transports.server.stdio import run

            run(self, **options)
        elif transport == "http":
            from carrel.transports.addresses import is_loopback
            from carrel.transports.server.uvicorn import serve

            host = options.get("host", "127.0.0.1")
            if self.tools.tells_errors and not is_loopback(host):
                log.warning(
                    "listening on %s, where other machines may reach it, without mask_errors=True: "
                    "callers are told the messages of all exceptions that tools raise",
                    host or "all addresses",
                )
            serve(self, **options)
        else:
            raise ConfigError(f"transport must be 'stdio' or 'http', not {transport!r}")

    def asgi(self, path: str = "/mcp", **options: Any) -> Any:
        """Return the server as an ASGI application. ``transports.server.http.StreamableHTTP`` has the options."""
        from carrel.transports.server.http import StreamableHTTP

        return StreamableHTTP(self, path=path, **options)

    async def start(self) -> None:
        """Enter the lifespan, start the sources and begin to watch them. Called by transports."""
        if self._loop is not None:
            raise ConfigError(f"the server {self.name} is running already")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        if "opentelemetry" in sys.modules:
            self._observe()
        self._stack = AsyncExitStack()
        try:
            if self._shared_state is not None:
                await self.replica.start()
                self._stack.push_async_callback(self.replica.stop)
            if self._lifespan is not None:
                self.state = await self._stack.enter_async_context(self._lifespan(self))
            for hook in self._on_startup:
                await _run_hook(hook)
            for hook in self._on_shutdown:
                self._stack.push_async_callback(_run_hook, hook)
            for source in self._shared:
                await source.start()
                self._stack.push_async_callback(source.stop)
                self.resources.attach(source)
                if self.offers_subscriptions or self._list_changed:
                    self._watch(source)
            for tool, page in self.tools.pages:
                if self.resources.exists(page) is None:
                    raise ConfigError(f"The tool {tool} points at {page}, which is not there; add it with app.ui")
        except BaseException:
            await self.stop()
            raise

    def _observe(self) -> None:
        """Trace and measure requests with OpenTelemetry, if the process has set up its SDK."""
        from carrel.server import telemetry

        if telemetry.is_configured():
            self._operations = telemetry.observe(self._operations, self.description.info.version)

    async def stop(self) -> None:
        """End the subscriptions gracefully, stop the sources, leave the lifespan."""
        self.end_streams()
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        await asyncio.gather(*self._acknowledging, return_exceptions=True)
        if self._tasks is not None:
            await self._tasks.stop()
        threads, self._threads = self._threads, None
        if threads is not None:
            await threads.close(CLEANUP)
        self._loop = None
        self.hub.shut()
        stack, self._stack = self._stack, None
        try:
            if stack is not None:
                await stack.aclose()
        finally:
            self.resources.detach()

    def end_streams(self) -> None:
        """End every long-lived listen stream gracefully, such as before the process stops."""
        self.hub.shut()

    def _watch(self, source: Source) -> None:
        from carrel.server.watching import Following  # not before something is shared

        following = Following(self, source)
        self.forming.add(following)
        self._watchers.add(following.task)
        following.task.add_done_callback(self._watchers.discard)

    def forming_for(self, uris: Collection[str], lists: Collection[str]) -> list[Following]:
        """Return the watches not listening yet, of sources that own one of the URIs; all, for changes of the list."""
        every = "resources_list_changed" in lists
        return [one for one in self.forming if every or any(one.source.owns(uri) for uri in uris)]

    def acknowledge_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the acknowledgement of a subscription that waits for a source as a task, which ``stop`` waits for."""
        task = asyncio.ensure_future(work)
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)

    def announce(self, uris: Iterable[str] = (), lists: Iterable[str] = (), *, seen: Seen = "here") -> None:
        """Notify subscribers that resources or lists changed. May be called from any thread, and at any time.

        ``seen`` is "everywhere" for changes that each replica sees itself; those seen "here" it publishes to others.
        """
        loop = self._loop
        if loop is None:
            return
        if not self._list_changed:
            lists = ()
        if seen == "here" and self._replica is not None and self._replica.shared:
            from carrel.state.records import Changed

            loop.call_soon_threadsafe(self._replica.publish, Changed(list(uris), list(lists)))
            return
        if threading.get_ident() == self._thread:
            self.hub.changed(uris, lists)
            return
        try:
            loop.call_soon_threadsafe(self.hub.changed, list(uris), list(lists))
        except RuntimeError:  # the loop was closed meanwhile: there are no subscribers any more
            pass

    @property
    def replica(self) -> Replica:
        """This server among its replicas, with the state that they share. The default state is in memory."""
        if self._replica is None:
            from carrel.state.records import Changed, Gap
            from carrel.state.replica import Replica

            state = self._shared_state
            if state is None:
                from carrel.state.memory import MemoryState

                state = MemoryState()
            self._replica = Replica(state)
            self._replica.on(Changed, lambda notice: self.hub.changed(notice.uris, notice.lists))
            self._replica.on(Gap, lambda _: self.hub.resync_all())
        return self._replica

    # Requests

    def connect(self) -> Connection:
        """Return a new connection, without information about its client yet."""
        return Connection(self.description, self.budget)

    def disconnect(self, connection: Connection) -> None:
        """Drop a connection, its subscriptions, and the requests to its client that are pending."""
        abandon(connection)
        if connection.subscriptions is not None:
            self.hub.close(connection.subscriptions)
            connection.subscriptions = None

    def restore(self, connection: Connection, subscriptions: Mapping[str, str]) -> None:
        """Open the subscription of a session that another replica has begun, with its URIs as the client spells them.

        Raises:
            ServerUnavailable: there is no room for it in the budget of its client.
        """
        assert connection.peer is not None
        lists, revision = frozenset(self.announced()), connection.peer.revision
        entry = Subscription(connection.channel, revision, lists, dict(subscriptions), connection=connection)
        self.hub.open(entry)
        entry.save = connection.channel.save_subscription
        connection.subscriptions = entry

    def resync(self, connection: Connection) -> None:
        """Notify a client that everything it has subscribed to may have changed."""
        if connection.subscriptions is not None:
            self.hub.resync(connection.subscriptions)

    def take_subscription(self, connection: Connection, uri: str, spelled: str | None) -> None:
        """Subscribe a session to a resource, or (None) unsubscribe it, as it has asked another replica to do."""
        entry = connection.subscriptions
        if entry is not None:
            save, entry.save = entry.save, None  # it is stored already
            try:
                if spelled is None:
                    self.hub.unsubscribe(entry, uri)
                else:
                    self.hub.subscribe(entry, uri, spelled)
            finally:
                entry.save = save

    def answer(self, call: Call, channel: Channel) -> Any:
        """Handle a request: return bytes or a ``Refusal`` at once, or an awaitable of one of them.

        Messages of the call other than its response are sent to ``channel``.
        """
        CLIENT.set(call.connection.client)  # for this call and the tasks that it begins
        try:
            operation = call.request.operation
            needed = self._needs.get(operation)
            if needed is not None and not needed.used:
                raise MethodNotFound(f"Method not found: this server has no {type(needed).__name__.lower()}")
            answer = self._operations.get(operation)
            if answer is None:
                raise MethodNotFound(f"Method not found: {call.request.method}")
            result = answer(call, channel)
            if hasattr(result, "__await__"):
                waits = call.request.endless and isinstance(result, asyncio.Future)  # until the server ends it
                return result if waits else self._answer_later(call, result)
            return call.connection.reply(call, result)
        except BaseException as error:  # not a cancellation: nothing has been awaited yet
            return self.refuse(call, error)

    async def _answer_later(self, call: Call, pending: Awaitable[Result | bytes]) -> bytes | Refusal:
        try:
            try:
                result = await pending
            except (InputRequired, BaseExceptionGroup) as more:
                result = required_by(more)
            return call.connection.reply(call, result)
        except (asyncio.CancelledError, GeneratorExit):
            raise  # from the function, or from the task that awaits this
        except BaseException as error:
            return self.refuse(call, error)
        finally:
            if call.connection.asked:
                withdraw(call)

    @property
    def tasks(self) -> Tasks:
        """Tasks of the server. The first access creates them and declares the tasks capability."""
        if self._tasks is None:
            from carrel.server.tasks.tasks import Tasks

            self._tasks = Tasks(self)
        return self._tasks

    @property
    def has_tasks(self) -> bool:
        """Whether any tool call can become a task."""
        return self._tasks is not None

    @property
    def state_cipher(self) -> RequestStateCipher:
        """Cipher of the ``requestState`` that stateless clients keep for this server."""
        if self._state_cipher is None:
            from carrel.server.elicitation.request_state import RequestStateCipher

            self._state_cipher = RequestStateCipher(self._state_keys, self.state_ttl)
        return self._state_cipher

    @property
    def exchanges(self) -> Exchanges:
        """Multi round-trip requests of stateless clients: answered with questions, and repeated with answers."""
        if self._exchanges is None:
            from carrel.server.elicitation.request_state import Exchanges

            self._exchanges = Exchanges(self.budget, self.state_ttl)
        return self._exchanges

    @staticmethod
    def take_answer(connection: Connection, answer: Answer) -> None:
        """Pass a client's response to the handler that waits for it."""
        take_answer(connection, answer)

    @staticmethod
    def refuse(call: Call, error: BaseException) -> Refusal:
        """Return the error response of a call, and log the error if the response hides it.

        Raises:
            KeyboardInterrupt: the user has pressed Ctrl-C, and nothing else ends the process then.
        """
        if is_interrupt(error):
            raise error
        try:
            return call.connection.refuse(call, told(call.request.method, error))
        except Exception as worse:  # the data of the error cannot be turned into JSON
            return call.connection.refuse(call, told(call.request.method, worse))

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

    async def read(self, uri: str, context: Context) -> Sequence[TextResourceContents | BlobResourceContents]:
        """Read a resource of this server from within a handler, on behalf of its caller.

        Raises:
            ResourceError: it cannot be had, or the caller's scopes are not enough to read it.
            InvalidParams: the URI is not one.
        """
        if context.principal is not None and not context.principal.readable(uri):
            raise ResourceForbidden(uri, "Reading this takes a scope that the access token lacks")
        result = self.resources.read(context.call_for(uri), context.channel)
        if type(result) is CoroutineType:
            result = await result
        return cast("ReadResourceResult", result).contents

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the server, in its present state."""
        changes = ListChanged(list_changed=True) if self._list_changed else ListChanged()
        resources = ResourcesCapability(
            subscribe=True if self.offers_subscriptions else UNSET, list_changed=True if self._list_changed else UNSET
        )
        return ServerCapabilities(
            logging={},
            completions={} if self.resources.completes or self.prompts.completes else UNSET,
            prompts=changes if self.prompts.used else UNSET,
            resources=resources if self.resources.used else UNSET,
            tasks=TASKS_CAPABILITY if self._tasks is not None else UNSET,
            tools=changes if self.tools.used else UNSET,
            extensions=self._extensions or UNSET,
        )

    def announced(self) -> list[str]:
        """Return the lists with change notifications: those declared in the capabilities."""
        if not self._list_changed:
            return []
        kinds: tuple[Tools | Prompts | Resources, ...] = (self.tools, self.prompts, self.resources)
        return [name for name, kind in zip(LISTS, kinds, strict=True) if kind.used]


async def _run_hook(hook: Hook) -> None:
    pending = hook()
    if pending is not None:
        await pending
