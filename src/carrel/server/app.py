"""MCP server application: registers resources, tools and prompts, and answers requests.

    app = Server("books", version="1.0")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

The folder `examples` has one of these for each feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, cast, overload

from msgspec import structs

from carrel.catalog.provider import Provider
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.protocol.description import Description
from carrel.server.capabilities import Capabilities
from carrel.server.catalog_operations import CatalogOperations
from carrel.server.context import ServerContexts
from carrel.server.dispatch import Dispatch
from carrel.server.endpoint import ServerEndpoint
from carrel.server.lifecycle import Hook, Lifecycle
from carrel.server.operations import Operations
from carrel.server.options import (
    Icons,
    ServerSettings,
    SkillsFolderOptions,
    UnknownArguments,
    cache_hint_of,
    check_options,
    icons_of,
)
from carrel.server.registration import Registration
from carrel.server.runtime import Runtime
from carrel.server.subscriptions import LISTS
from carrel.server.watching import Watches
from carrel.wire.base import Implementation
from carrel.wire.lifecycle import ServerCapabilities

if TYPE_CHECKING:
    import os

    from typing_extensions import TypeVar as DefaultTypeVar

    from carrel.catalog.access import Gate
    from carrel.context.index import ContextIndex
    from carrel.protocol.extension import Extension
    from carrel.search.embedder import Embed
    from carrel.search.indexer import Progress
    from carrel.search.options import SearchOptions
    from carrel.server.adding import Adding
    from carrel.server.middleware.middleware import Middleware, MiddlewareFunction
    from carrel.server.runtime import Operation
    from carrel.state.interfaces import State as SharedState
    from carrel.transports.server.http import StreamableHTTP
    from carrel.transports.server.options import ASGIOptions, RunOptions

    State = DefaultTypeVar("State", default=Any)
else:
    State = TypeVar("State")

__all__ = ["Server"]

M = TypeVar("M", bound="Middleware | MiddlewareFunction")
Transport: TypeAlias = Literal["stdio", "http", "streamable-http", "sse"]


class Server(Registration, Generic[State]):
    """MCP server application: registry of resources, tools, prompts and providers, and handler of requests.

    ``page_size`` is the number of entries per page of a list. ``subscribe`` and ``list_changed`` enable notifications
    of changes to resources and to lists. ``ttl`` (seconds) and ``scope`` are the default cache hints of results.
    ``lifespan`` is called with the server and returns an asynchronous context manager that is entered at start-up and
    exited at shutdown; the yielded value is ``app.state`` and ``context.state``. ``state_ttl`` is how long clients may
    take to answer an elicitation, sampling or roots request, in seconds. ``state_keys`` (32 bytes each; the first one
    encrypts, all of them decrypt) protect the ``requestState`` of stateless clients; replicas must share them; a single
    process generates its own. ``limits`` apply to every transport (docs/limits.md). With ``mask_errors``, models get
    the message of an exception of a tool only if it is a ToolError; otherwise they get a reference to the log.
    ``strict`` and ``unknown_arguments`` ("reject", "ignore") are the defaults for all tools and prompts; see
    ``tools.add``. ``state`` is the store of sessions, streams and tasks that replicas share, or the URL of Redis or
    Valkey, which needs ``state_keys``; without it, they are in the memory of this process (docs/scale.md). ``gate``
    decides which resources, tools and prompts each caller may use (docs/access.md). ``log_level`` is the default of the
    option of ``run``.

    Raises:
        ConfigError: an argument is not valid.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> Server:
            """Check the names of the options, with a better error message than ``__init__``."""
            if options and cls.__init__ is Server.__init__:
                check_options("Server()", options, {"name", "version", *cls.__init__.__kwdefaults__})
            return super().__new__(cls)

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
        strict: bool = False,
        unknown_arguments: UnknownArguments = "reject",
        state: SharedState | str | None = None,
        gate: Gate | None = None,
        log_level: str | None = None,
    ) -> None:
        if not name:
            raise ConfigError("A server needs a name")
        if log_level is not None:
            from carrel.server.serving import check_level  # loaded on first use

            check_level(log_level)
        self.name = name
        self._gate = gate
        self._log_level = log_level
        ttl_ms, scope = cache_hint_of(ttl, str(scope))
        settings = ServerSettings(
            page_size=page_size,
            subscribe=subscribe,
            list_changed=list_changed,
            state_keys=tuple(state_keys),
            state_ttl=state_ttl,
            mask_errors=mask_errors,
            strict=strict,
            unknown_arguments=unknown_arguments,
            state=state,
        )
        described = Description(
            Implementation(
                name, version, title=title, description=description, website_url=website_url, icons=icons_of(icons)
            ),
            self.capabilities,
            instructions=instructions,
            ttl_ms=ttl_ms or 0,
            scope=scope,
        )
        if lifespan is not None and not callable(lifespan):
            raise ConfigError(f"lifespan is a function that returns an async context manager, not {lifespan!r}")
        super().__init__(Runtime(described, settings, _checked(limits) if limits is not None else Limits()))
        self._connect(None if lifespan is None else lambda: lifespan(self))

    def _connect(self, lifespan: Callable[[], AbstractAsyncContextManager[State]] | None) -> None:
        """Create the parts of the server, and its endpoint."""
        runtime = self._runtime
        runtime.contexts = ServerContexts(runtime)
        watches = Watches(runtime)
        self._lifecycle = Lifecycle(runtime, self._local, watches, lifespan)
        operations = self._operations = CatalogOperations(runtime, self._local, watches)
        self._capabilities = Capabilities(runtime, self._local, self._lifecycle.added, lambda: operations.completes)
        notified_lists = self._capabilities.notified_lists
        runtime.operations.update(Operations(runtime, watches, notified_lists).handlers())
        runtime.operations.update(operations.handlers())
        self._dispatch = Dispatch(runtime.description, runtime.operations, self._capabilities.requirements())
        self.gate = self._gate
        runtime.operations_changed = self._dispatch.compose
        self.endpoint = ServerEndpoint(runtime, self._dispatch, self._lifecycle, watches, notified_lists)
        """The interface of transports, and of servers that this one is added to."""

    @property
    def limits(self) -> Limits:
        """The limits of this server. Setting them changes them at once, also while it runs (docs/limits.md).

        Raises:
            ConfigError: a changed limit is fixed while the server runs.
        """
        return structs.replace(self._runtime.limits)

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._runtime.change_limits(_checked(limits))

    @property
    def gate(self) -> Gate | None:
        """The access gate (docs/access.md). It may be set while the server runs; call ``list_changed`` then."""
        return self._gate

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        self._gate = self._runtime.hub.gate = self._dispatch.gate = gate

    def list_changed(self, uris: Iterable[str] = ()) -> None:
        """Notify all clients that all lists may have changed, because the gate decides otherwise now.

        ``uris`` are resources whose subscribers are notified too.
        """
        self._runtime.notify(uris=uris, lists=LISTS)

    @property
    def dependency_overrides(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        """Factories of dependencies that replace others: ``app.dependency_overrides[open_db] = fake_db``."""
        return self._runtime.dependency_overrides

    @property
    def state(self) -> State:
        """Value that the lifespan has yielded, while the server runs."""
        return cast("State", self._runtime.state)

    @state.setter
    def state(self, state: State) -> None:
        self._runtime.state = state

    def share_state(self, state: SharedState | str, keys: Sequence[bytes]) -> None:
        """Use a store of shared state, or the URL of Redis or Valkey, and ``state_keys``. Call it before the start.

        Raises:
            ConfigError: a key or the URL is not valid, or a package is missing.
        """
        self._runtime.share_state(state, tuple(keys))

    # Registration

    def add_provider(
        self,
        provider: Provider | Server[Any] | str | os.PathLike[str],
        *,
        namespace: str | None = None,
        optional: bool = False,
        **options: object,
    ) -> Adding:
        """Add a provider: a ``Provider``, another ``Server``, a path, or a URL (``options`` depend on the scheme).

        With ``namespace``, its tools and prompts are called ``namespace_name``, and its URIs begin with ``namespace+``.
        An ``optional`` provider that cannot start is left out, with a warning in the log. While the server runs,
        ``await`` the result to wait for the provider's start, or to get the error.

        Raises:
            ConfigError: no provider exists for the path or URL, or its package is not installed.
        """
        from carrel.server.adding import Adding, declare, open_provider

        if isinstance(provider, Server):
            from carrel.server.mount import Mounted

            if options:
                raise ConfigError(f"{provider.name}: a Server object takes no options: {', '.join(options)}")
            given: Provider = Mounted(provider, self)
        else:
            given = open_provider(provider, options)
            declare(given.extensions, self._runtime)
        if namespace is not None:
            from carrel.catalog.transforms.namespace import Namespace

            given = Namespace(given, namespace)
            if isinstance(provider, Server):
                provider.endpoint.runtime.names = given
        if not self._runtime.is_running:
            return Adding(self._lifecycle.add(given, optional=optional), None)
        return Adding(given, lambda: self._lifecycle.start_provider(given, optional=optional))

    async def remove_provider(self, provider: Provider | str) -> None:
        """Remove and stop a provider, given by its name or as an object.

        Raises:
            KeyError: there is no such provider.
        """
        name = provider if isinstance(provider, str) else provider.name
        if await self._lifecycle.leave_out(name):
            return
        await self.endpoint.watches.end(name)
        await self._runtime.catalog.remove(name)
        self._runtime.notify(lists=LISTS)

    def disable(self, *, tags: Iterable[str]) -> None:
        """Disable all tools, prompts, resources and templates with one of ``tags``, including later additions.

        Clients see disabled items as if they did not exist. To disable single items, use ``tools.disable`` and the
        like.
        """
        labels = frozenset(tags) if not isinstance(tags, str) else tags
        for registry in (self.tools, self.prompts, self.resources):
            registry.disable(tags=labels)

    def enable(self, *, tags: Iterable[str]) -> None:
        """Enable the items that ``disable`` has disabled by the same tags."""
        labels = frozenset(tags) if not isinstance(tags, str) else tags
        for registry in (self.tools, self.prompts, self.resources):
            registry.enable(tags=labels)

    def skills(self, *folders: str | os.PathLike[str], **options: Unpack[SkillsFolderOptions]) -> None:
        """Serve the Agent Skills in folders: directories with a SKILL.md, each file of them as a ``skill:`` resource.

        The options ``exclude``, ``hidden``, ``follow_symlinks`` and ``gitignore`` are the same as for a shared folder.
        This method also enables directory reads for every provider, even without folders. See docs/skills.md.

        Raises:
            ConfigError: the server is running.
        """
        if self._runtime.is_running:
            raise ConfigError("serve skills before the server starts")
        from carrel.server.skills import add_folders, use

        use(self._runtime, self._operations)
        # A server with this extension declares resources, whether or not it has any.
        self._capabilities.declares_resources = True
        if folders:
            add_folders(self._lifecycle.added, folders, options)

    def extend(
        self, extension: Extension, operations: Mapping[str, Operation], settings: dict[str, Any] | None = None
    ) -> None:
        """Register a protocol extension.

        ``operations`` are the handlers of its methods, by operation name; each returns a ``Result`` or an awaitable of
        one. ``settings`` are its value in the ``extensions`` capability.

        Raises:
            ConfigError: one of its methods is taken, or has no handler.
        """
        self._runtime.extend(extension, operations, settings)

    def add_resource_tools(self, *, search: bool = True) -> None:
        """Offer read-only tools over the resources, for hosts whose model cannot see resources.

        ``search`` is whether to include search_resources, which searches names only; ``add_search`` adds full-text
        search.

        Raises:
            ConfigError: a tool of one of their names is registered already.
        """
        from carrel.catalog.resources_as_tools import ResourcesAsTools

        provider = ResourcesAsTools(self._runtime.catalog, self._runtime.settings.page_size, search=search)
        taken = [name for name in sorted(provider.tool_names) if name in self.tools.entries]
        if taken:
            raise ConfigError(f"There is a tool {taken[0]} already")
        self._lifecycle.added.append(provider)

    def add_search(
        self,
        options: SearchOptions | None = None,
        *,
        key: str | None = None,
        progress: Callable[[Progress], object] | None = None,
        embed: Embed | None = None,
    ) -> ContextIndex:
        """Offer full-text search over all resources, and contexts for questions. Return the index.

        ``key`` identifies the shared resources: servers with the same key share an index on disk. The default key
            consists of the names of the server and its providers. ``progress`` is called with the progress of indexing.
            ``embed`` returns a vector for each text of a list; vectors are then used for ranking too. See
            docs/search.md.

        Raises:
            ConfigError: the server is running, a tool is called search or context already, or tantivy is not installed.
        """
        from carrel.server.search import add_search

        return add_search(self, self._lifecycle.added, options, key, progress, embed)

    @overload
    def middleware(self, middleware: M, /) -> M: ...
    @overload
    def middleware(self, *methods: str) -> Callable[[M], M]: ...
    def middleware(self, *methods: Any) -> M | Callable[[M], M]:
        """Register middleware around every call, or around calls of some methods: ``@app.middleware("tools/call")``.

        A function is called with the call and ``next``, and returns the result of ``await next(call)``, or another
        result, or raises an error. A ``Middleware`` object has such a function for each method. The first one
        registered is the outermost. It sees the method, parameters, principal and, over HTTP, headers of the call, on
        every transport. See docs/middleware.md.

        Names of methods are checked when the server starts: an extension that is added later may have more.

        Raises:
            ConfigError: the middleware is a class, not an object; or the running server has no such method.
        """
        from carrel.server.middleware.composition import listener_of  # few servers have middleware

        bare = len(methods) == 1 and not isinstance(methods[0], str)
        around: frozenset[str] = frozenset() if bare else frozenset(methods)

        def register(middleware: M) -> M:
            self._runtime.listeners.extend(listener_of(middleware))
            self._dispatch.add_middleware(middleware, around)
            if self._runtime.is_running:
                self._dispatch.check_methods()
            return middleware

        return register(methods[0]) if bare else register

    def middlewares(self, method: str) -> list[Middleware | MiddlewareFunction]:
        """Return the middleware that is registered for a method, the outermost first."""
        return self._dispatch.around(method)

    @overload
    def on_startup(self, hook: Hook, /) -> Hook: ...
    @overload
    def on_startup(self) -> Callable[[Hook], Hook]: ...
    def on_startup(self, hook: Hook | None = None) -> Hook | Callable[[Hook], Hook]:
        """Register ``hook`` to be called when the server starts. Also a decorator."""
        if hook is None:
            return self.on_startup
        self._lifecycle.on_startup.append(hook)
        return hook

    @overload
    def on_shutdown(self, hook: Hook, /) -> Hook: ...
    @overload
    def on_shutdown(self) -> Callable[[Hook], Hook]: ...
    def on_shutdown(self, hook: Hook | None = None) -> Hook | Callable[[Hook], Hook]:
        """Register ``hook`` to be called when the server stops. Also a decorator."""
        if hook is None:
            return self.on_shutdown
        self._lifecycle.on_shutdown.append(hook)
        return hook

    # Running

    def run(self, transport: Transport = "stdio", **options: Unpack[RunOptions]) -> None:
        """Serve until the client closes the connection (stdio) or the process is told to stop (HTTP).

        "streamable-http" is another name of "http"; "sse" serves the HTTP+SSE transport of 2024-11-05 as well, at /sse.
        Over HTTP, ``host`` ("127.0.0.1"), ``port`` (8000) and ``path`` ("/mcp") say where; ``asgi`` takes the rest. The
        URL and how to connect are printed to standard error, unless there is ``on_started``. ``log_level`` ("debug",
        "info", "warning", "error") is for logs on standard error.

        Raises:
            ConfigError: there is no such transport, or it does not take these options.
        """
        from carrel.server import serving

        serving.run(
            self, self.name, transport, options, exposes_errors=self.tools.exposes_errors, level=self._log_level
        )

    async def run_async(self, transport: Transport = "stdio", **options: Unpack[RunOptions]) -> None:
        """Serve in the running event loop; takes what ``run`` takes. Cancelling it over HTTP ends it gracefully.

        One server may serve on both transports at once, with ``asyncio.gather`` or a task group: it starts with the
        first one and stops with the last.
        """
        from carrel.server import serving

        await serving.run_async(
            self, self.name, transport, options, exposes_errors=self.tools.exposes_errors, level=self._log_level
        )

    def asgi(self, path: str = "/mcp", **options: Unpack[ASGIOptions]) -> StreamableHTTP:
        """Return the server as an ASGI application. ``transports.server.http.StreamableHTTP`` has the options."""
        from carrel.transports.server.http import StreamableHTTP

        return StreamableHTTP(self, path=path, **options)

    def capabilities(self) -> ServerCapabilities:
        """Return the current capabilities of the server."""
        return self._capabilities.declared()


def _checked(limits: Limits) -> Limits:
    if not isinstance(limits, Limits):
        raise ConfigError(f"limits are Limits(…) (from carrel import Limits), not {limits!r}")
    return limits
