"""MCP server application: registers resources, tools and prompts, and answers requests.

    app = Server("books", version="1.0")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

The folder `examples` has one of these for each feature.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Unpack, cast, overload

from carrel.catalog.provider import Provider
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.log import Log
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import Connection, Description
from carrel.server.catalog_operations import CatalogOperations
from carrel.server.completion import CompletableFunction
from carrel.server.contexts import ServerContexts
from carrel.server.dispatch import Dispatch, Middleware, Need
from carrel.server.elicitation.input_required import abandon
from carrel.server.local import LocalProvider
from carrel.server.metadata import icons_of
from carrel.server.operations import Operations
from carrel.server.options import ASGIOptions, Icons, PromptOptions, ResourceOptions, ServeOptions, ToolOptions
from carrel.server.runtime import Runtime
from carrel.server.subscriptions import LISTS, Subscription, set_of
from carrel.server.watching import Watches
from carrel.wire.base import Implementation
from carrel.wire.lifecycle import ListChanged, ResourcesCapability, ServerCapabilities

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from typing_extensions import TypeVar

    from carrel.catalog.access import Gate
    from carrel.limits import Budget
    from carrel.protocol.extension import Extension
    from carrel.server.prompts import Prompts
    from carrel.server.resources import Resources
    from carrel.server.runtime import Operation, Tasks
    from carrel.server.tools import Tools
    from carrel.state.interfaces import State as SharedState
    from carrel.state.replica import Replica
    from carrel.transports.server.http import StreamableHTTP
    from carrel.wire.apps import PageSecurity
else:
    from carrel.server.state_type import TypeVar

__all__ = ["Server"]

TASKS_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
State = TypeVar("State", default=Any)
Hook = Callable[[], Awaitable[None] | None]
log = Log("carrel")


class Adding:
    """Provider that is being added. Awaiting it waits until it has started, on a running server."""

    def __init__(self, provider: Provider, start: Callable[[], Awaitable[None]] | None) -> None:
        self.provider = provider
        self._start = start

    def __await__(self) -> Generator[Any, None, Provider]:
        if self._start is not None:
            yield from self._start().__await__()
        return self.provider


class Server(Generic[State]):
    """MCP server application: registry of resources, tools, prompts and providers, and handler of requests.

    ``page_size`` is the number of entries per page of a list. ``subscribe`` and ``list_changed`` enable notifications
    of changes to resources and to lists. ``ttl`` (seconds) and ``scope`` are the default cache hints of results.
    ``lifespan`` is called with the server and returns an asynchronous context manager that is entered at start-up and
    left at shutdown; the value that it yields is ``app.state`` and ``context.state``. ``state_ttl`` is how long clients
    may take to answer an elicitation, sampling or roots request, in seconds. ``state_keys`` (32 bytes each; the first
    one encrypts, all of them decrypt) protect the ``requestState`` of stateless clients; replicas have to share them,
    one process makes its own. ``limits`` hold for every transport (docs/limits.md). With ``mask_errors``, models get
    the message of an exception of a tool only if it is a ToolError; otherwise they get a reference to the log.
    ``state`` is the store of sessions, streams and tasks that replicas share; without it, they are in the memory of
    this process (docs/scale.md). ``gate`` decides which resources, tools and prompts each caller may use
    (docs/access.md).

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
        icons: Icons | None = None,
        page_size: int = 100,
        subscribe: bool = True,
        list_changed: bool = True,
        ttl: float = 0,
        scope: Literal["public", "private"] = "private",
        lifespan: Callable[[Server[State]], AbstractAsyncContextManager[State]] | None = None,
        state_keys: Sequence[bytes] = (),
        state_ttl: float = 600.0,
        limits: Limits | None = None,
        mask_errors: bool = False,
        state: SharedState | None = None,
        gate: Gate | None = None,
    ) -> None:
        if not name:
            raise ConfigError("A server needs a name")
        if ttl < 0:
            raise ConfigError(f"ttl must be 0 or more seconds, not {ttl}")
        if scope not in ("public", "private"):
            raise ConfigError(f"scope must be 'public' or 'private', not {scope!r}")
        self.name = name
        self.description = Description(
            Implementation(
                name,
                version,
                title=title,
                description=description,
                website_url=website_url,
                icons=icons_of(icons),
            ),
            self.capabilities,
            instructions=instructions,
            ttl_ms=round(ttl * 1000),
            scope=scope,
        )
        self.runtime = Runtime(
            self.description,
            page_size=page_size,
            limits=limits or Limits(),
            mask_errors=mask_errors,
            offers_subscriptions=subscribe,
            list_changed=list_changed,
            state_keys=state_keys,
            state_ttl=state_ttl,
            make_tasks=_make_tasks,
            shared_state=state,
        )
        self.runtime.contexts = ServerContexts(self.runtime)
        self.catalog = self.runtime.catalog
        self._local = LocalProvider(self.runtime)
        self.catalog.put(self._local)
        self.watches = Watches(self.runtime)
        self._operations = CatalogOperations(self.runtime, self._local, self.watches)
        self.runtime.operations.update(Operations(self.runtime, self.watches, self.announced).handlers())
        self.runtime.operations.update(self._operations.handlers())
        # Operations refused where nothing of their kind is there; lists are answered all the same, empty.
        kinds: dict[str | None, Need] = {
            "prompts": Need("prompts", lambda: self._has_prompts),
            "resources": Need("resources", lambda: self._has_resources),
            "tools": Need("tools", lambda: self._has_tools),
        }
        needing = (row for row in REQUESTS.values() if row.capability in kinds and row.verb != "list")
        needs = {row.operation: kinds[row.capability] for row in needing}
        self.gate = gate
        self._dispatch = Dispatch(self.runtime.operations, needs, gate)
        self.answer = self._dispatch.answer
        self.refuse = self._dispatch.refuse
        self._lifespan = lifespan
        self._on_startup: list[Hook] = []
        self._on_shutdown: list[Hook] = []
        self._added: list[Provider] = []
        self._stack: AsyncExitStack | None = None
        self._users = 0
        self._changing = asyncio.Lock()
        self._declares_resources = False

    @property
    def limits(self) -> Limits:
        """The limits of this server. They can be replaced until a transport is set up."""
        return self.runtime.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self.runtime.limits = limits

    @property
    def budget(self) -> Budget:
        """Budget of the memory that is kept for clients."""
        return self.runtime.budget

    @property
    def state(self) -> State:
        """Value that the lifespan has yielded, while the server runs."""
        return cast("State", self.runtime.state)

    @state.setter
    def state(self, state: State) -> None:
        self.runtime.state = state

    @property
    def resources(self) -> Resources:
        """Resources and templates that are registered, to add, replace, change and remove some at any time."""
        return self._local.resources

    @property
    def tools(self) -> Tools:
        """Tools that are registered, to add and remove some at any time."""
        return self._local.tools

    @property
    def prompts(self) -> Prompts:
        """Prompts that are registered, to add and remove some at any time."""
        return self._local.prompts

    # Registration

    def resource(
        self, uri: str, **options: Unpack[ResourceOptions]
    ) -> Callable[[Callable[P, R]], CompletableFunction[P, R]]:
        """Register the decorated function as a resource, or as a template where ``uri`` is a URI template (RFC 6570).

        The variables of the template are the function's parameters, typed by its annotations. It returns what
        ``resources.add`` takes as a value; None means that there is no such resource.

        Raises:
            ConfigError: the URI or template is not valid or taken, or the function does not take its variables.
        """
        if callable(uri):
            raise ConfigError('A resource needs a URI: write @app.resource("scheme://path")')

        def register(function: Callable[P, R]) -> CompletableFunction[P, R]:
            return self.resources.register(uri, function, **options)

        return register

    @overload
    def tool(self, name: F, /) -> F: ...
    @overload
    def tool(self, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, name: F | str | None = None, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register the decorated function as a tool. See ``tools.add``. Without arguments, no parentheses are needed.

        Raises:
            ConfigError: the name is taken, or a schema is not valid.
        """
        if name is not None and not isinstance(name, str):
            return self.tools.add(name)

        def register(function: F) -> F:
            return self.tools.add(function, name=name, **options)

        return register

    @overload
    def prompt(self, name: Callable[P, R], /) -> CompletableFunction[P, R]: ...
    @overload
    def prompt(
        self, name: str | None = None, **options: Unpack[PromptOptions]
    ) -> Callable[[Callable[P, R]], CompletableFunction[P, R]]: ...
    def prompt(
        self, name: Callable[P, R] | str | None = None, **options: Unpack[PromptOptions]
    ) -> CompletableFunction[P, R] | Callable[[Callable[P, R]], CompletableFunction[P, R]]:
        """Register the decorated function as a prompt. See ``prompts.add``. Without arguments, as ``@app.prompt``.

        Raises:
            ConfigError: the name is taken.
        """
        if name is not None and not isinstance(name, str):
            return self.prompts.add(name)

        def register(function: Callable[P, R]) -> CompletableFunction[P, R]:
            return self.prompts.add(function, name=name, **options)

        return register

    def add_provider(
        self, provider: Provider | Server[Any] | str | os.PathLike[str], *, namespace: str | None = None, **options: Any
    ) -> Adding:
        """Add a provider: a ``Provider``, another ``Server``, a path, or a URL (``options`` are those of its scheme).

        With ``namespace``, its tools and prompts are called ``namespace_name``, and its URIs begin with ``namespace+``.
        While the server runs, ``await`` the result to know that the provider has started, or why it cannot.

        Raises:
            ConfigError: it is not clear what the path or URL names, or its package is not installed.
        """
        given = _provider_of(provider, self, options)
        if namespace is not None:
            from carrel.catalog.transforms import Namespace

            given = Namespace(given, namespace)
            if isinstance(provider, Server):
                provider.runtime.names = given
        if not self.runtime.is_running:
            self._added.append(given)
            return Adding(given, None)
        return Adding(given, lambda: self._start_provider(given))

    async def remove_provider(self, provider: Provider | str) -> None:
        """Remove a provider, by its name or itself, and stop it.

        Raises:
            KeyError: it is not here.
        """
        name = provider if isinstance(provider, str) else provider.name
        await self.watches.end(name)
        await self.catalog.remove(name)
        self.runtime.announce(lists=LISTS)

    def ui(
        self,
        uri: str,
        html: str | Path,
        *,
        csp: PageSecurity | dict[str, Any] | None = None,
        permissions: Iterable[str] = (),
        domain: str | None = None,
        prefers_border: bool | None = None,
        **options: Unpack[ResourceOptions],
    ) -> None:
        """Register a page that hosts show for tools (MCP Apps): HTML, or the Path of a file, read anew each time.

        ``csp`` are the origins that the page may use: connect_domains, resource_domains, frame_domains and
        base_uri_domains, none of them by default. ``permissions`` are camera, microphone, geolocation and
        clipboard_write. ``domain`` is an origin of its own, in the form that the host wants; ``prefers_border`` asks
        for a border, or for none. Tools refer to it with ``ui=uri``.

        Raises:
            ConfigError: the URI does not begin with ui://, or is taken, or something is not known.
        """
        from carrel.server.apps import add_page, page_meta

        add_page(
            self.runtime, self.resources.add, uri, html, page_meta(csp, permissions, domain, prefers_border), options
        )

    def skills(self, *folders: str | os.PathLike[str], **options: Any) -> None:
        """Serve the Agent Skills in folders: directories with a SKILL.md, each file of them as a ``skill:`` resource.

        The options are ``exclude``, ``hidden``, ``follow_symlinks`` and ``gitignore``, as those of a folder that is
        shared. With this, clients can also look into the directories of every provider, and even without folders. See
        docs/skills.md.

        Raises:
            ConfigError: the server is running.
        """
        if self.runtime.is_running:
            raise ConfigError("serve skills before the server starts")
        from carrel.server.skills import use

        use(self.runtime, self._operations)
        self._declares_resources = True  # a server with this extension declares resources, whether or not it has any
        if folders:
            from carrel.sources.registry import read_options
            from carrel.sources.skills.source import SkillsSource

            there = next((each for each in self._added if isinstance(each, SkillsSource)), None)
            source = there or SkillsSource()
            source.add(*folders, options=read_options(SkillsSource.options, options, "skills:"))
            if there is None:
                self._added.append(source)

    def extend(
        self, extension: Extension, operations: Mapping[str, Operation], settings: dict[str, Any] | None = None
    ) -> None:
        """Register a protocol extension.

        ``operations`` are the handlers of its methods, by operation name; each returns a ``Result`` or an awaitable of
        one. ``settings`` are its value in the ``extensions`` capability.

        Raises:
            ConfigError: one of its methods is taken, or has no handler.
        """
        self.runtime.extend(extension, operations, settings)

    def add_resource_tools(self) -> None:
        """Offer read-only tools over the resources, for hosts whose model cannot see resources.

        Raises:
            ConfigError: a tool of one of their names is registered already.
        """
        from carrel.catalog.resources_as_tools import ResourcesAsTools

        provider = ResourcesAsTools(self.catalog, self.runtime.page_size)
        taken = [name for name in provider.tool_names if name in self.tools.entries]
        if taken:
            raise ConfigError(f"There is a tool {taken[0]} already")
        self._added.append(provider)

    @overload
    def middleware(self, middleware: Middleware, /) -> Middleware: ...
    @overload
    def middleware(self, *methods: str) -> Callable[[Middleware], Middleware]: ...
    def middleware(self, *methods: Any) -> Middleware | Callable[[Middleware], Middleware]:
        """Register middleware around every call, or around those of some methods: ``@app.middleware("tools/call")``.

        It is called with the call and ``next``, and returns what ``await next(call)`` returns, or another result, or
        raises an error. The first one registered is the outermost. It sees the method, parameters, principal and, over
        HTTP, headers of the call, on every transport.
        """
        if len(methods) == 1 and callable(methods[0]):
            self._dispatch.add_middleware(methods[0])
            return cast("Middleware", methods[0])

        def register(middleware: Middleware) -> Middleware:
            self._dispatch.add_middleware(middleware, frozenset(methods))
            return middleware

        return register

    def on_startup(self, hook: Hook) -> Hook:
        """Register ``hook`` to be called when the server starts. Also a decorator."""
        self._on_startup.append(hook)
        return hook

    def on_shutdown(self, hook: Hook) -> Hook:
        """Register ``hook`` to be called when the server stops. Also a decorator."""
        self._on_shutdown.append(hook)
        return hook

    # Running

    def run(self, transport: Literal["stdio", "http"] = "stdio", **options: Unpack[ServeOptions]) -> None:
        """Serve until the client closes the connection (stdio) or the process is told to stop (HTTP).

        Over HTTP, ``host`` ("127.0.0.1"), ``port`` (8000) and ``path`` ("/mcp") say where; ``asgi`` takes the rest.
        """
        if transport == "stdio":
            from carrel.transports.server.stdio import run

            _check_no_options(options)
            run(self)
        elif transport == "http":
            from carrel.transports.server.uvicorn import serve

            self._warn_of_errors(options.get("host", "127.0.0.1"))
            serve(self, **options)
        else:
            raise ConfigError(f"transport must be 'stdio' or 'http', not {transport!r}")

    async def run_async(self, transport: Literal["stdio", "http"] = "stdio", **options: Unpack[ServeOptions]) -> None:
        """Serve in the running event loop; takes what ``run`` takes. Cancelling it over HTTP ends it gracefully.

        One server may serve on both transports at once, with ``asyncio.gather`` or a task group: it starts with the
        first one and stops with the last.
        """
        if transport == "stdio":
            from carrel.transports.server.stdio import run_async

            _check_no_options(options)
            await run_async(self)
        elif transport == "http":
            from carrel.transports.server.uvicorn import serve_async

            self._warn_of_errors(options.get("host", "127.0.0.1"))
            await serve_async(self, **options)
        else:
            raise ConfigError(f"transport must be 'stdio' or 'http', not {transport!r}")

    def _warn_of_errors(self, host: str) -> None:
        """Log a warning if other machines may get the messages of exceptions."""
        from carrel.transports.addresses import is_loopback

        if self.tools.tells_errors and not is_loopback(host):
            log.warning(
                "listening on %s, where other machines may reach it, without mask_errors=True: "
                "callers are told the messages of all exceptions that tools raise",
                host or "all addresses",
            )

    def asgi(self, path: str = "/mcp", **options: Unpack[ASGIOptions]) -> StreamableHTTP:
        """Return the server as an ASGI application. ``transports.server.http.StreamableHTTP`` has the options."""
        from carrel.transports.server.http import StreamableHTTP

        return StreamableHTTP(self, path=path, **options)

    async def start(self) -> None:
        """Enter the lifespan, start the providers and begin to watch them, for the first transport that calls it.

        Raises:
            ConfigError: it runs in another event loop, or something of it cannot be started.
        """
        if self._users == 0 and not self._changing.locked():
            self._changing = asyncio.Lock()  # one lock is for one event loop
        self._users += 1
        try:
            self.runtime.check_loop()
            async with self._changing:
                if not self.runtime.is_running:
                    await self._start()
        except BaseException:
            self._users -= 1
            raise

    async def _start(self) -> None:
        self.runtime.start()
        if "opentelemetry" in sys.modules:
            self._observe()
        self._stack = AsyncExitStack()
        try:
            if self.runtime.shared_state is not None:
                await self.replica.start()
                self._stack.push_async_callback(self.replica.stop)
            if self._lifespan is not None:
                self.runtime.state = await self._stack.enter_async_context(self._lifespan(self))
            for hook in self._on_startup:
                await _run_hook(hook)
            for hook in self._on_shutdown:
                self._stack.push_async_callback(_run_hook, hook)
            for provider in self._added:
                await self._start_provider(provider)
            for tool, page in self.tools.pages:
                if not self.catalog.routes.exists(page):
                    raise ConfigError(f"The tool {tool} points at {page}, which is not there; add it with app.ui")
        except BaseException:
            await self._stop()
            raise

    async def _start_provider(self, provider: Provider) -> None:
        await self.catalog.add(provider)
        self.watches.begin(provider)
        self.runtime.announce(lists=LISTS)

    def _observe(self) -> None:
        """Trace and measure requests with OpenTelemetry, if the process has set up its SDK."""
        from carrel.server import telemetry

        if telemetry.is_configured() and not self._is_observed:
            self._dispatch.add_middleware(telemetry.middleware(self.description.info.version))
            self._is_observed = True

    _is_observed = False

    async def stop(self) -> None:
        """End the subscriptions gracefully, stop the providers, leave the lifespan, with the last transport."""
        self._users = max(0, self._users - 1)
        async with self._changing:
            if self._users == 0:
                await self._stop()

    async def _stop(self) -> None:
        self.runtime.hub.shut()
        await self.watches.stop()
        await self.runtime.stop()
        stack, self._stack = self._stack, None
        async with stack or AsyncExitStack() as rest:
            for provider in self.catalog.providers:
                if provider is not self._local:
                    rest.push_async_callback(self.catalog.remove, provider.name)

    def end_streams(self) -> None:
        """End every long-lived listen stream gracefully, before the last transport stops."""
        if self._users <= 1:
            self.runtime.hub.shut()

    # Connections

    def connect(self) -> Connection:
        """Return a new connection, without information about its client yet."""
        return Connection(self.description, self.budget)

    def disconnect(self, connection: Connection) -> None:
        """Drop a connection, its subscriptions, and the requests to its client that are pending."""
        abandon(connection)
        connection.close()
        self.runtime.sessions.pop(connection, None)
        subscription = self.runtime.hub.sessions.pop(connection, None)
        if subscription is not None:
            self.runtime.hub.close(subscription)

    @property
    def replica(self) -> Replica:
        """This server among its replicas, with the state that they share. The default state is in memory."""
        return self.runtime.replica

    def restore(self, connection: Connection, subscriptions: Mapping[str, str]) -> None:
        """Open the subscription of a session that another replica has begun, with its URIs as the client spells them.

        Raises:
            ServerUnavailable: there is no room for it in the budget of its client.
        """
        assert connection.peer is not None
        lists, revision = set_of(tuple(self.announced())), connection.peer.revision
        channel = connection.channel
        assert channel is not None
        entry = Subscription(channel, revision, lists, dict(subscriptions), connection=connection)
        self.runtime.hub.open(entry)
        entry.save = getattr(channel, "save_subscription", None)
        self.runtime.hub.sessions[connection] = entry

    def resync(self, connection: Connection) -> None:
        """Notify a client that everything it has subscribed to may have changed."""
        entry = self.runtime.hub.sessions.get(connection)
        if entry is not None:
            self.runtime.hub.resync(entry)

    def take_subscription(self, connection: Connection, uri: str, spelled: str | None) -> None:
        """Subscribe a session to a resource, or (None) unsubscribe it, as it has asked another replica to do."""
        entry = self.runtime.hub.sessions.get(connection)
        if entry is not None:
            save, entry.save = entry.save, None  # it is stored already
            try:
                if spelled is None:
                    self.runtime.hub.unsubscribe(entry, uri)
                else:
                    self.runtime.hub.subscribe(entry, uri, spelled)
            finally:
                entry.save = save

    # Capabilities

    @property
    def _has_resources(self) -> bool:
        offering = self.catalog.offering("read_resource")
        return self.resources.used or self._declares_resources or len(offering) > 1 or self._adds("read_resource")

    @property
    def _has_tools(self) -> bool:
        return self.tools.used or len(self.catalog.offering("call_tool")) > 1 or self._adds("call_tool")

    @property
    def _has_prompts(self) -> bool:
        return self.prompts.used or len(self.catalog.offering("get_prompt")) > 1 or self._adds("get_prompt")

    def _adds(self, method: str) -> bool:
        """Return whether a provider that is started with the server implements a method."""
        return any(provider.offers(method) for provider in self._added)

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the server, in its present state."""
        runtime = self.runtime
        changes = ListChanged(list_changed=True) if runtime.list_changed else ListChanged()
        resources = ResourcesCapability(
            subscribe=True if runtime.offers_subscriptions else None,
            list_changed=True if runtime.list_changed else None,
        )
        return ServerCapabilities(
            logging={},
            completions={} if self._operations.completes else None,
            prompts=changes if self._has_prompts else None,
            resources=resources if self._has_resources else None,
            tasks=TASKS_CAPABILITY if runtime.has_tasks else None,
            tools=changes if self._has_tools else None,
            extensions=runtime.extensions or None,
        )

    def announced(self) -> list[str]:
        """Return the lists with change notifications: those declared in the capabilities."""
        if not self.runtime.list_changed:
            return []
        kinds = (self._has_tools, self._has_prompts, self._has_resources)
        return [name for name, used in zip(LISTS, kinds, strict=True) if used]


def _provider_of(given: Provider | Server[Any] | str | os.PathLike[str], app: Server[Any], options: Any) -> Provider:
    """Return the provider for what ``add_provider`` takes.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(given, Provider):
        if options:
            raise ConfigError(f"{given.name}: a provider has no options here: {', '.join(options)}")
        return given
    if isinstance(given, Server):
        from carrel.server.mount import Mounted

        return Mounted(given, app)
    if not isinstance(given, str) and not hasattr(given, "__fspath__"):
        remote = "; a client is added as carrel.host.RemoteProvider(client)"
        raise ConfigError(f"A provider is a Provider, a Server, a path or a URL, not a {type(given).__name__}{remote}")
    from carrel import sources

    return sources.open(given, **options)


def _check_no_options(options: ServeOptions) -> None:
    """Check that nothing is said about HTTP where stdio is served.

    Raises:
        ConfigError: there are options.
    """
    if options:
        raise ConfigError(f"stdio takes no options: {', '.join(options)}")


def _make_tasks(runtime: Runtime) -> Tasks:
    from carrel.server.tasks.tasks import Tasks

    return Tasks(runtime)


async def _run_hook(hook: Hook) -> None:
    pending = hook()
    if pending is not None:
        await pending
