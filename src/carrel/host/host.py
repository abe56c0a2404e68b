"""Host: many servers at once, as one catalog of resources, templates, tools, prompts and skills.

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
from carrel.catalog.registry import Listener
from carrel.client.client import Client
from carrel.client.options import CallOptions, ClientOptions
from carrel.errors import ConfigError, MCPError, TransportError
from carrel.host.catalog import HostCatalog
from carrel.host.changes import KINDS, HostChange, HostChangeKind, HostChanges
from carrel.host.config.files import ConfigFiles
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import Problem, ServerConfig
from carrel.host.hosted_server import ALL_LISTS, HostedServer, ListKind
from carrel.host.remote import PATIENCE
from carrel.host.selection import Hosted, Selection, check, select, wants_server
from carrel.host.tools import HostTools, ToolsOptions, make_tools, selection_of
from carrel.log import Log
from carrel.near_names import did_you_mean
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

__all__ = ["Host"]

log = Log("carrel.host")

T = TypeVar("T")
#: Seconds between looks at the configuration files.
PAUSE = 1.0


class Host:
    """Host of many servers. Use it as an async context manager, which connects to all of them at the same time.

    Entering waits until each server is ready or has failed, for at most its own time limit. A server that fails is
    connected to again and again, with growing pauses, and spoils nothing for the others.

    Args:
        configs: the servers.
        files: configuration files with more servers; their changes apply while the host is open.
        lazy: connect to a server only when something of it is asked for.
        start_timeout: seconds that connecting to one server may take, where its configuration says nothing.
        inputs: where ``${input:ID}`` comes from; without it, from the keyring, and nothing is asked for.
        credentials: returns the credentials of a server with a URL, such as ``carrel.security.client.OAuth``.
        listener: called with what the providers of ``catalog`` report, as of ``Catalog``.
        catalog: the catalog that the servers are put in, instead of one of the host's own.
        face: returns what is put into the catalog for a server, instead of its provider, under the same name.
        enter_timeout: seconds that entering waits for the servers at most; the others become ready later.
        options: options of the clients: ``handlers`` for what servers ask, ``timeout``, ``log``, ``cache`` and others.

    Raises:
        ConfigError: two servers have one name.
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
        listener: Listener | None = None,
        catalog: HostCatalog | None = None,
        face: Callable[[HostedServer], Provider] | None = None,
        enter_timeout: float | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.catalog = HostCatalog(listener) if catalog is None else catalog
        """What all connected servers offer, as one provider."""
        self.servers: dict[str, HostedServer] = {}
        """The servers by name."""
        self._files = ConfigFiles(configs, files)
        self._lazy = lazy
        self._start_timeout = start_timeout
        self._inputs = inputs or Inputs()
        self._credentials = credentials
        self._face = face
        self._faces: dict[str, Provider] = {}
        self._enter_timeout = enter_timeout
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: WeakSet[HostChanges] = WeakSet()
        self._applying = asyncio.Lock()
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
    def problems(self) -> Sequence[Problem]:
        """Problems in the configuration files."""
        return self._files.problems

    async def apply(self, configs: Iterable[ServerConfig]) -> None:
        """Make these the servers of the host: only those whose configuration differs are connected to again.

        Returns when each new one is ready or has failed, unless the host is lazy.
        """
        new = await self._replace(configs)
        if not self._lazy and new:
            opening = [self._spawn(self._open(server)) for server in new]
            done, _ = await asyncio.wait(opening, timeout=self._enter_timeout)
            for task in done:
                task.result()

    async def _replace(self, configs: Iterable[ServerConfig]) -> list[HostedServer]:
        """Close the servers that are not wanted any more, and return the new ones."""
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
        return HostedServer(config, options, self._announce, inputs=self._inputs, start_timeout=self._start_timeout)

    async def _open(self, server: HostedServer) -> None:
        """Connect to a server, unless that has begun already, and wait for the outcome."""
        await server.open(lambda provider: self._add(server, provider))

    def _add(self, server: HostedServer, provider: Provider) -> None:
        face = provider if self._face is None else self._face(server)
        self._faces[server.name] = face
        self.catalog.put(face)

    async def _stop(self, server: HostedServer) -> None:
        await server.close()
        face = self._faces.pop(server.name, None)
        if face is not None:
            self.catalog.take(server.name)
            self.catalog.publish(face, (), dict.fromkeys(ALL_LISTS))

    def server(self, name: str) -> HostedServer:
        """Return the server of a name.

        Raises:
            ConfigError: there is none.
        """
        found = self.servers.get(name)
        if found is None:
            raise ConfigError(f"there is no server {name!r}{did_you_mean(name, self.servers)}")
        return found

    async def connect(self, name: str) -> HostedServer:
        """Return a server that is connected; one that is idle is connected to first.

        Raises:
            ConfigError: there is no such server.
            TransportError: it is not available; the message says why.
        """
        server = self.server(name)
        if server.state in ("idle", "connecting"):
            await self._open(server)
        await server.ready()
        return server

    async def wake(self, name: str) -> None:
        """Connect to a server that is idle, and wait for the outcome."""
        server = self.servers.get(name)
        if server is not None and server.state in ("idle", "connecting"):
            await self._open(server)

    async def reconnect(self, name: str) -> HostedServer:
        """Try again now to connect to a server that has failed, and wait for the outcome. See ``connect``."""
        self.server(name).retry()
        return await self.connect(name)

    # Lists of all servers

    async def list_resources(self, **selection: Unpack[Selection]) -> list[Hosted[Resource]]:
        """Return the resources of all servers. Two servers with the same URI have two resources."""
        return await self._list("resources", selection)

    async def list_resource_templates(self, **selection: Unpack[Selection]) -> list[Hosted[ResourceTemplate]]:
        """Return the resource templates of all servers."""
        return await self._list("templates", selection)

    async def list_tools(self, **selection: Unpack[Selection]) -> list[Hosted[Tool]]:
        """Return the tools of all servers."""
        return await self._list("tools", selection)

    async def list_prompts(self, **selection: Unpack[Selection]) -> list[Hosted[Prompt]]:
        """Return the prompts of all servers."""
        return await self._list("prompts", selection)

    async def list_skills(self, **selection: Unpack[Selection]) -> list[Hosted[Skill]]:
        """Return the skills of all servers."""
        return await self._list("skills", selection)

    async def search(self, query: str, *, limit: int = 50, **selection: Unpack[Selection]) -> list[Hosted[Hit]]:
        """Return the resources that match a query, of all servers, the best first."""

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

    async def _list(self, kind: ListKind, selection: Selection) -> list[Hosted[Any]]:
        return select(await self._gather(selection, lambda server: server.items(kind)), selection)

    async def _gather(self, selection: Selection, ask: Callable[[HostedServer], Any]) -> list[Hosted[Any]]:
        """Return what the selected servers that are available answer; the others are left out."""
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

    # Requests to one server

    async def read_resource(self, server: str, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """Return the contents of a resource of a server. For errors, see ``Client.read_resource`` and ``connect``."""
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
        """Return completions of a value, of a server. See ``Client.complete``."""
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
        """Return an async iterator of what changes from now on, until the host is closed.

        For changes of single resources, watch them with the client of their server: ``host.server(name).client``.
        """
        changes = HostChanges()
        self._watchers.add(changes)
        return changes

    def _announce(self, server: HostedServer, lists: Sequence[ListName]) -> None:
        face = self._faces.get(server.name)
        if lists and face is not None and self.servers.get(server.name) is server:
            self.catalog.publish(face, (), dict.fromkeys(lists))
        for name in lists:
            self._publish(KINDS[name], server.name)
        if not lists:
            self._publish("state", server.name)

    def _publish(self, kind: HostChangeKind, server: str) -> None:
        for watcher in list(self._watchers):
            watcher.put(HostChange(kind, server))

    # Configuration files

    def _read_files(self) -> list[ServerConfig]:
        """Return the servers that were given, and those in the files."""
        return self._files.read([server.config for server in self.servers.values()])

    async def _follow(self) -> None:
        """Apply changes of the files. They are looked at every second: editors replace files, which watches lose."""
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
