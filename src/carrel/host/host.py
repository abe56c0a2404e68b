"""Host: connects to many servers, and combines their resources, templates, tools, prompts and skills.

async with Host(unique(discover())) as host:
    for server in host.servers.values():
        print(server.name, server.state, server.reason)
    for found in await host.list_resources(mime_type="text/*", sort="recency"):
        print(found.server, found.item.uri)
    result = await host.call_tool("shop", "find", {"query": "lamp"})
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload
from weakref import WeakSet

import msgspec

from carrel.catalog.provider import Hit, ListName, Provider, Request
from carrel.catalog.registry import ChangeListener
from carrel.client.client import Client
from carrel.client.options import CallOptions, ClientOptions
from carrel.errors import ConfigError, MCPError, TransportError
from carrel.host.catalog import HostCatalog
from carrel.host.changes import HostChange, HostChangeKind, HostChanges
from carrel.host.config.files import ConfigFiles
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ConfigProblem, ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.remote import PATIENCE
from carrel.host.selection import Hosted, Selection, check, select, wants_server
from carrel.host.tools import HostTools, ToolsOptions, make_tools, selection_of
from carrel.log import Log
from carrel.near_names import did_you_mean
from carrel.protocol.methods import LIST_CAPABILITIES, LIST_NOTIFICATIONS, ItemKind
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import Credentials
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.skills import Skill
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from llama_index.core.tools import AsyncBaseTool
    from pydantic_ai.toolsets import AbstractToolset

    from carrel.agents import VendorTools
    from carrel.agents.formats import Vendor
    from carrel.context.index import ContextIndex
    from carrel.context.options import ContextOptions
    from carrel.context.pack import ContextPack
    from carrel.host.context import HostContexts

__all__ = ["Host"]

log = Log("carrel.host")

T = TypeVar("T")
#: Seconds between checks of the configuration files for changes.
PAUSE = 1.0


class Host:
    """Host that connects to many servers. Use it as an async context manager.

    Entering connects to all servers in parallel, and waits until each server is ready or has failed, for at most the
    server's start timeout. If a server fails, the host reconnects with exponential backoff; other servers are not
    affected.

    Args:
        configs: the servers.
        files: configuration files with more servers; the files are watched for changes while the host is open.
        lazy: connect to a server only on its first request.
        start_timeout: seconds that connecting to a server may take, unless its configuration sets a value.
        inputs: source of the values for ``${input:ID}``; by default the keyring, without prompting the user.
        credentials: returns the credentials of a server with a URL, such as ``carrel.security.client.OAuth``.
        listener: called with the changes that the providers in ``catalog`` report, as in ``Catalog``.
        catalog: catalog to add the servers to; by default, a new one.
        expose: returns the provider to add to the catalog for a server, instead of the server's provider. It must have
            the same name.
        enter_timeout: maximum number of seconds that entering waits for servers; slower servers become ready later.
        prepare: called with each server and its client before the client connects, for example to record messages.
        options: options of the clients: ``handlers`` for server requests, ``timeout``, ``log``, ``cache`` and others.

    Raises:
        ConfigError: two servers have the same name.
    """

    def __init__(
        self,
        configs: Iterable[ServerConfig] = (),
        *,
        files: Iterable[Path | str] = (),
        lazy: bool = False,
        start_timeout: float = PATIENCE,
        inputs: Inputs | None = None,
        credentials: Callable[[ServerConfig], Credentials | None] | None = None,
        listener: ChangeListener | None = None,
        catalog: HostCatalog | None = None,
        expose: Callable[[HostedServer], Provider] | None = None,
        enter_timeout: float | None = None,
        prepare: Callable[[HostedServer, Client], object] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.catalog = HostCatalog(listener) if catalog is None else catalog
        """Catalog of all connected servers, as one provider."""
        self.servers: dict[str, HostedServer] = {}
        """The servers by name."""
        self._files = ConfigFiles(configs, files)
        self._lazy = lazy
        self._start_timeout = start_timeout
        self._inputs = inputs or Inputs()
        self._credentials = credentials
        self._expose = expose
        self._prepare = prepare
        self._exposed: dict[str, Provider] = {}
        self._enter_timeout = enter_timeout
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: WeakSet[HostChanges] = WeakSet()
        self._applying = asyncio.Lock()
        self._contexts: HostContexts | None = None
        names = [config.name for config in self._files.given]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"there are several servers of one name: {', '.join(twice)}")

    async def __aenter__(self) -> Host:
        try:
            await self.apply(self._read_files())
            if self._files.paths:
                self._spawn(self._follow())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        contexts, self._contexts = self._contexts, None
        if contexts is not None:
            await contexts.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        servers, self.servers = list(self.servers.values()), {}
        await asyncio.gather(*(self._stop(server) for server in servers))
        for watcher in list(self._watchers):
            watcher.end()

    # Servers

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Problems in the configuration files."""
        return self._files.problems

    async def apply(self, configs: Iterable[ServerConfig]) -> None:
        """Replace the servers of the host. Servers whose configuration is unchanged stay connected.

        Unless the host is lazy, wait until each new server is ready or has failed, for at most ``enter_timeout``.
        """
        new = await self._replace(configs)
        if not self._lazy and new:
            opening = [self._spawn(self._open(server)) for server in new]
            done, _ = await asyncio.wait(opening, timeout=self._enter_timeout)
            for task in done:
                task.result()

    async def _replace(self, configs: Iterable[ServerConfig]) -> list[HostedServer]:
        """Close removed and changed servers, and return the new servers, which are not connected yet."""
        wanted = {config.name: config for config in configs}
        async with self._applying:
            kept = {
                name: server
                for name, server in self.servers.items()
                if name in wanted and server.config.same_as(wanted[name])
            }
            old = [server for name, server in self.servers.items() if name not in kept]
            self.servers = kept
            await asyncio.gather(*map(self._stop, old))
            new = {name: self._server(config) for name, config in wanted.items() if name not in kept}
            self.servers = {name: kept.get(name) or new[name] for name in wanted}
        for server in old:
            if server.name not in wanted:
                self._publish("removed", server.name)
        for name in new:
            self._publish("added", name)
        return list(new.values())

    def _server(self, config: ServerConfig) -> HostedServer:
        options = self._options.copy()
        if config.url is not None and self._credentials is not None:
            auth = self._credentials(config)
            if auth is not None:
                options["http"] = msgspec.structs.replace(options.get("http") or HTTPOptions(), auth=auth)
        return HostedServer(
            config,
            options,
            self._on_change,
            inputs=self._inputs,
            start_timeout=self._start_timeout,
            prepare=self._prepare,
        )

    async def _open(self, server: HostedServer) -> None:
        """Connect to a server, unless connecting has begun already, and wait until it is ready or has failed."""
        await server.open(lambda provider: self._add(server, provider))

    def _add(self, server: HostedServer, provider: Provider) -> None:
        exposed = provider if self._expose is None else self._expose(server)
        self._exposed[server.name] = exposed
        self.catalog.put(exposed)

    async def _stop(self, server: HostedServer) -> None:
        await server.close()
        exposed = self._exposed.pop(server.name, None)
        if exposed is not None:
            self.catalog.take(server.name)
            self.catalog.publish(exposed, (), dict.fromkeys(LIST_NOTIFICATIONS))

    def server(self, name: str) -> HostedServer:
        """Return a server by name.

        Raises:
            ConfigError: there is no such server.
        """
        found = self.servers.get(name)
        if found is None:
            raise ConfigError(f"there is no server {name!r}{did_you_mean(name, self.servers)}")
        return found

    async def connect(self, name: str) -> HostedServer:
        """Return a connected server. Connect to the server first if it is idle.

        Raises:
            ConfigError: there is no such server.
            TransportError: the server is not available; the message says why.
        """
        server = self.server(name)
        if server.state in ("idle", "connecting"):
            await self._open(server)
        await server.ready()
        return server

    async def wake(self, name: str) -> None:
        """Connect to a server if it is idle, and wait until it is ready or has failed."""
        server = self.servers.get(name)
        if server is not None and server.state in ("idle", "connecting"):
            await self._open(server)

    async def reconnect(self, name: str) -> HostedServer:
        """Reconnect to a failed server now, and wait until it is ready or has failed. See ``connect``."""
        self.server(name).retry()
        return await self.connect(name)

    # Lists of all servers

    async def list_resources(self, **selection: Unpack[Selection]) -> list[Hosted[Resource]]:
        """Return the resources of all servers. If two servers have the same URI, both resources are returned."""
        return await self._list("resource", selection)

    async def list_resource_templates(self, **selection: Unpack[Selection]) -> list[Hosted[ResourceTemplate]]:
        """Return the resource templates of all servers."""
        return await self._list("template", selection)

    async def list_tools(self, **selection: Unpack[Selection]) -> list[Hosted[Tool]]:
        """Return the tools of all servers."""
        return await self._list("tool", selection)

    async def list_prompts(self, **selection: Unpack[Selection]) -> list[Hosted[Prompt]]:
        """Return the prompts of all servers."""
        return await self._list("prompt", selection)

    async def list_skills(self, **selection: Unpack[Selection]) -> list[Hosted[Skill]]:
        """Return the skills of all servers."""
        return await self._list("skill", selection)

    async def search(self, query: str, *, limit: int = 50, **selection: Unpack[Selection]) -> list[Hosted[Hit]]:
        """Search the resources of all servers, and return the matches, best first."""

        async def hits(server: HostedServer) -> Sequence[Hit]:
            provider = await server.ready()
            if not provider.offers("search"):
                return ()
            return (await provider.search(query, Request(limit=limit))).items

        found = await self._gather(selection, hits)
        matching = {id(one.item) for one in select([Hosted(one.server, one.item.resource) for one in found], selection)}
        found = [one for one in found if id(one.item.resource) in matching]
        if "sort" not in selection:
            found.sort(key=lambda one: -one.item.score)
        return found[:limit]

    async def _list(self, kind: ItemKind, selection: Selection) -> list[Hosted[Any]]:
        return select(await self._gather(selection, lambda server: server.items(kind)), selection)

    async def _gather(self, selection: Selection, ask: Callable[[HostedServer], Any]) -> list[Hosted[Any]]:
        """Return the entries of all selected servers. Leave out servers that are not available."""
        check(selection)
        for name in selection.get("servers", ()):
            self.server(name)
        chosen = [one for one in self.servers.values() if wants_server(selection, one.name, one.config.tags)]

        async def of(server: HostedServer) -> Sequence[Hosted[Any]]:
            try:
                if server.state == "idle" or (server.state == "connecting" and server.reason is None):
                    await self._open(server)
                if server.state != "ready":
                    return ()
                return [Hosted(server.name, item) for item in await ask(server)]
            except MCPError as error:
                log.info("%s is left out of a list: %s", server.name, error)
                return ()

        parts = await asyncio.gather(*map(of, sorted(chosen, key=lambda one: one.name)))
        return [entry for part in parts for entry in part]

    async def context(
        self, question: str, *, wait: float | None = None, idle: float | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """Pack what the resources of all servers say about a question into a budget of tokens, with reasons.

        The first call reads and indexes the resources of all servers; it waits for that as ``index`` does. The pack
        names the servers that have not answered. For ``options``, see ``ContextIndex.context``. See
        docs/packed-context.md.

        Raises:
            ConfigError: tantivy is not installed.
            TypeError: ``pin``, ``open`` or ``without`` is a single string.
            ValueError: the budget is less than 1, or there is no such format.
        """
        index = await self.index(wait=wait, idle=idle)
        return await index.context(question, **options)

    async def index(self, *, wait: float | None = None, idle: float | None = None) -> ContextIndex:
        """Return the full-text index over the resources of all servers, which the first call makes.

        Wait until all servers are connected and all resources are indexed, for at most ``wait`` seconds. With ``idle``,
        do not wait for servers that have been connecting for so many seconds, nor if nothing was indexed for as long.

        Raises:
            ConfigError: tantivy is not installed.
        """
        from carrel.host.context import HostContexts  # few hosts have an index

        late = [each for each in self.servers.values() if each.state in ("idle", "connecting")]
        connecting = {server: self._spawn(self.wake(server.name)) for server in late}
        if self._contexts is None:
            self._contexts = HostContexts(self.catalog)
        return await self._contexts.index_of(connecting, wait, idle)

    # Requests to one server

    async def read_resource(self, server: str, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """Read a resource of a server, and return its contents. For errors, see ``Client.read_resource`` and
        ``connect``.
        """
        return await self._ask(server, lambda client: client.read_resource(uri, **options))

    async def call_tool(
        self, server: str, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool of a server, and return its result. For errors, see ``Client.call_tool`` and ``connect``."""
        return await self._ask(server, lambda client: client.call_tool(name, arguments, **options))

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Get a prompt of a server. For errors, see ``Client.get_prompt`` and ``connect``."""
        return await self._ask(server, lambda client: client.get_prompt(name, arguments, **options))

    async def complete(
        self,
        server: str,
        reference: Prompt | ResourceTemplate | PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return a server's completions of a value. See ``Client.complete``."""
        return await self._ask(server, lambda client: client.complete(reference, argument, value, context))

    async def _ask(self, name: str, ask: Callable[[Client], Awaitable[T]]) -> T:
        server = await self.connect(name)
        try:
            return await ask(server.client)
        except TransportError:
            server.check()
            raise

    # Tools for models

    @overload
    async def tools(self, format: Vendor, **options: Unpack[ToolsOptions]) -> VendorTools: ...
    @overload
    async def tools(self, format: Literal["langchain"], **options: Unpack[ToolsOptions]) -> list[BaseTool]: ...
    @overload
    async def tools(self, format: Literal["llamaindex"], **options: Unpack[ToolsOptions]) -> list[AsyncBaseTool]: ...
    @overload
    async def tools(self, format: Literal["pydantic-ai"], **options: Unpack[ToolsOptions]) -> AbstractToolset[Any]: ...
    async def tools(self, format: Any, **options: Unpack[ToolsOptions]) -> Any:
        """Return the tools of all servers in the format of a vendor or framework. See ``carrel.agents.tools_of``."""
        selection = selection_of(options)
        check(selection)
        for name in selection.get("servers", ()):
            self.server(name)
        return await make_tools(HostTools(self.list_tools, self.call_tool, selection), format, options)

    # Changes

    def watch(self) -> HostChanges:
        """Return an async iterator of future changes, which ends when the host is closed.

        For changes of single resources, use ``watch`` of the server's client, ``host.server(name).client``.
        """
        changes = HostChanges()
        self._watchers.add(changes)
        return changes

    def _on_change(self, server: HostedServer, lists: Sequence[ListName]) -> None:
        exposed = self._exposed.get(server.name)
        if lists and exposed is not None and self.servers.get(server.name) is server:
            self.catalog.publish(exposed, (), dict.fromkeys(lists))
        for name in lists:
            self._publish(LIST_CAPABILITIES[name], server.name)
        if not lists:
            self._publish("state", server.name)

    def _publish(self, kind: HostChangeKind, server: str) -> None:
        for watcher in list(self._watchers):
            watcher.put(HostChange(kind, server))

    # Configuration files

    def _read_files(self) -> list[ServerConfig]:
        """Return the servers in ``configs`` and in the configuration files."""
        return self._files.read([server.config for server in self.servers.values()])

    async def _follow(self) -> None:
        """Apply changes of the configuration files. Poll them: editors replace files, which breaks file watches."""
        while True:
            await asyncio.sleep(PAUSE)
            if not self._files.changed:
                continue
            wanted = self._read_files()
            self._publish("problems", "")
            for server in await self._replace(wanted):
                if not self._lazy:
                    self._spawn(self._open(server))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
