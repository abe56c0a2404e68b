"""Synchronous host: ``carrel.host.Host`` without ``await``, for scripts, notebooks and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from carrel.catalog.provider import Provider
from carrel.catalog.registry import ChangeListener
from carrel.host import host as asynchronous
from carrel.host.catalog import HostCatalog
from carrel.host.changes import HostChange
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ConfigProblem, ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.remote import PATIENCE
from carrel.host.tools import ToolsOptions
from carrel.sync.loop import background, iterate, run, waiting
from carrel.sync.options import CallOptions, ClientOptions, async_call_options, async_client_options
from carrel.transports.client.transport import Credentials
from carrel.wire.prompts import GetPromptResult
from carrel.wire.resources import ReadResourceResult
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from llama_index.core.tools import AsyncBaseTool
    from pydantic_ai.toolsets import AbstractToolset

    from carrel.agents.formats import Vendor
    from carrel.client.client import Client as AsyncClient
    from carrel.context.options import ContextOptions
    from carrel.sync.context import ContextPack
    from carrel.sync.tools import VendorTools

__all__ = ["Host"]


class Host:
    """Host of many servers, which waits for each answer. See ``carrel.host.Host`` for the options and methods.

    It may be used from several threads, as ``carrel.sync.Client``. Handlers may be plain functions; ``inputs``,
    ``credentials``, ``listener`` and ``prepare`` are called in the background event loop.
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
        prepare: Callable[[HostedServer, AsyncClient], object] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.host = asynchronous.Host(
            configs,
            files=files,
            lazy=lazy,
            start_timeout=start_timeout,
            inputs=inputs,
            credentials=credentials,
            listener=listener,
            catalog=catalog,
            expose=expose,
            enter_timeout=enter_timeout,
            prepare=prepare,
            **async_client_options(options),
        )
        """The host in the background event loop."""

    def __enter__(self) -> Host:
        background().open.add(self.host)
        try:
            run(self.host.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        run(self.host.close())
        background().open.discard(self.host)

    # Servers

    @property
    def servers(self) -> Mapping[str, HostedServer]:
        """The servers by name: their state, reason, info and configuration."""
        return self.host.servers

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Problems in the configuration files."""
        return self.host.problems

    apply = waiting("host", asynchronous.Host.apply)

    def server(self, name: str) -> HostedServer:
        """Return the server of a name. See ``Host.server``."""
        return self.host.server(name)

    connect = waiting("host", asynchronous.Host.connect)
    reconnect = waiting("host", asynchronous.Host.reconnect)
    wake = waiting("host", asynchronous.Host.wake)

    # Lists of all servers
    list_resources = waiting("host", asynchronous.Host.list_resources)
    list_resource_templates = waiting("host", asynchronous.Host.list_resource_templates)
    list_tools = waiting("host", asynchronous.Host.list_tools)
    list_prompts = waiting("host", asynchronous.Host.list_prompts)
    list_skills = waiting("host", asynchronous.Host.list_skills)
    search = waiting("host", asynchronous.Host.search)

    def context(
        self, question: str, *, wait: float | None = None, idle: float | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """Pack what the resources of all servers say about a question into a budget of tokens. See ``Host.context``."""
        from carrel.sync.context import ContextPack

        return ContextPack(run(self.host.context(question, wait=wait, idle=idle, **options)))

    # Requests to one server

    def read_resource(self, server: str, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """Return the contents of a resource of a server."""
        return run(self.host.read_resource(server, uri, **async_call_options(options)))

    def call_tool(
        self, server: str, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool of a server, and return its result."""
        return run(self.host.call_tool(server, name, arguments, **async_call_options(options)))

    def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Get a prompt of a server."""
        return run(self.host.get_prompt(server, name, arguments, **async_call_options(options)))

    complete = waiting("host", asynchronous.Host.complete)

    # Tools for models

    @overload
    def tools(self, format: Vendor, **options: Unpack[ToolsOptions]) -> VendorTools: ...
    @overload
    def tools(self, format: Literal["langchain"], **options: Unpack[ToolsOptions]) -> list[BaseTool]: ...
    @overload
    def tools(self, format: Literal["llamaindex"], **options: Unpack[ToolsOptions]) -> list[AsyncBaseTool]: ...
    @overload
    def tools(self, format: Literal["pydantic-ai"], **options: Unpack[ToolsOptions]) -> AbstractToolset[Any]: ...
    def tools(self, format: Any, **options: Unpack[ToolsOptions]) -> Any:
        """Return the tools of all servers in the format of a vendor or framework. See ``carrel.sync.tools_of``."""
        from carrel.sync.tools import in_thread, waiting

        if "approve" in options:
            options["approve"] = in_thread(options["approve"])
        return waiting(run(self.host.tools(format, **options)))

    # Changes

    def watch(self) -> Iterator[HostChange]:
        """Return an iterator of what changes from now on, until the host is closed."""
        changes = self.host.watch()
        return iterate(lambda: changes)
