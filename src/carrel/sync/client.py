"""Synchronous MCP client: ``carrel.Client`` without ``await``, for scripts, notebooks and threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from carrel.client import client as asynchronous
from carrel.client.endpoints import Target
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import Progress
from carrel.client.retry import Retries
from carrel.client.session import LogReceiver
from carrel.sync.handlers import AnyHandlers, async_handlers
from carrel.sync.loop import background, run, waiting
from carrel.sync.paged_list import PagedList
from carrel.sync.state import ClientState
from carrel.sync.watch import Watch
from carrel.wire.base import ClientCapabilities, Implementation, LoggingLevel
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.sync.skills import ServerSkills
    from carrel.sync.tasks import Tasks
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

__all__ = ["Client"]


class Client:
    """MCP client of one server, which waits for each answer. See ``carrel.Client`` for the options and methods.

        with Client("https://example.org/mcp") as client:
            resources = client.list_resources()
            result = client.read_resource("book://lem/solaris")

    It may be used from several threads, and where an event loop runs already, such as in notebooks. An interrupt
    (Ctrl-C) cancels the call. Open clients are closed when the interpreter exits.

    Handlers may be plain functions, see ``carrel.sync.Handlers``. ``log`` and ``progress`` run in the background event
    loop: they must not block, nor use the client.

    Raises:
        ConfigError: an option is invalid.
    """

    def __init__(
        self,
        target: Target,
        *,
        name: str = "carrel",
        version: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        timeout: float | None = 60.0,
        patience: float = 5.0,
        retries: Retries | None = None,
        handlers: AnyHandlers | None = None,
        log: LogReceiver | None = None,
        log_level: LoggingLevel | None = None,
        extensions: Sequence[ClientExtension] = (),
        cache: Cache | None = None,
        fetch_web: bool = False,
        http: HTTPOptions | None = None,
        process: ProcessOptions | None = None,
    ) -> None:
        self.client = asynchronous.Client(
            target,
            name=name,
            version=version,
            title=title,
            revision=revision,
            timeout=timeout,
            patience=patience,
            retries=retries,
            handlers=async_handlers(handlers),
            log=log,
            log_level=log_level,
            extensions=extensions,
            cache=cache,
            fetch_web=fetch_web,
            http=http,
            process=process,
        )
        """The client in the background event loop."""

    def __enter__(self) -> Client:
        background().open.add(self.client)
        try:
            run(self.client.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every watch, fail pending requests, and close the connection. May be called more than once."""
        run(self.client.close())
        background().open.discard(self.client)

    # The connection and the server

    @property
    def state(self) -> ClientState:
        """State of the connection, which can be waited for and observed."""
        return ClientState(self.client.state)

    @property
    def revision(self) -> str:
        """The negotiated revision."""
        return self.client.revision

    @property
    def server(self) -> Implementation | None:
        """Server info (name and version), as declared by the server and not verified."""
        return self.client.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """The server's capabilities."""
        return self.client.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self.client.instructions

    # Resources

    def list_resources(self) -> PagedList[Resource]:
        """List the resources: a sequence whose pages are fetched on demand."""
        return PagedList(lambda: aiter(self.client.list_resources()))

    def list_resource_templates(self) -> PagedList[ResourceTemplate]:
        """List the resource templates."""
        return PagedList(lambda: aiter(self.client.list_resource_templates()))

    def list_directory(self, uri: str) -> PagedList[Resource]:
        """List the direct children of a directory resource. See ``Client.list_directory``."""
        return PagedList(lambda: aiter(self.client.list_directory(uri)))

    def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: AnyHandlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
    ) -> ReadResourceResult:
        """Read a resource: text contents are str, blobs are bytes. See ``Client.read_resource``."""
        return run(
            self.client.read_resource(
                uri,
                timeout=timeout,
                progress=progress,
                meta=meta,
                handlers=async_handlers(handlers),
                user_data=user_data,
                capabilities=capabilities,
            )
        )

    def watch(self, *uris: str, lists: Iterable[Literal["resources", "tools", "prompts"]] = ()) -> Watch:
        """Subscribe to changes of resources, and of lists. See ``Client.watch``.

        with client.watch("book://lem/solaris", lists=["resources"]) as changes:
            for change in changes: ...
        """
        return Watch(self.client.watch(*uris, lists=lists))

    # Tools

    def list_tools(self) -> PagedList[Tool]:
        """List the tools. Their annotations are untrusted hints, not permissions."""
        return PagedList(lambda: aiter(self.client.list_tools()))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: AnyHandlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
        repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result; ``is_error`` is set if the tool failed. See ``Client.call_tool``."""
        return run(
            self.client.call_tool(
                name,
                arguments,
                timeout=timeout,
                progress=progress,
                meta=meta,
                handlers=async_handlers(handlers),
                user_data=user_data,
                capabilities=capabilities,
                repeatable=repeatable,
            )
        )

    # Extensions

    @property
    def tasks(self) -> Tasks:
        """Tasks: tool calls that outlive their response."""
        from carrel.sync.tasks import Tasks

        return Tasks(self.client.tasks)

    @property
    def skills(self) -> ServerSkills:
        """Skills of the server."""
        from carrel.sync.skills import ServerSkills

        return ServerSkills(self.client.skills)

    # Prompts

    def list_prompts(self) -> PagedList[Prompt]:
        """List the prompts."""
        return PagedList(lambda: aiter(self.client.list_prompts()))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: AnyHandlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
    ) -> GetPromptResult:
        """Get a prompt: its messages, rendered with the arguments. See ``Client.get_prompt``."""
        return run(
            self.client.get_prompt(
                name,
                arguments,
                timeout=timeout,
                progress=progress,
                meta=meta,
                handlers=async_handlers(handlers),
                user_data=user_data,
                capabilities=capabilities,
            )
        )

    complete = waiting("client", asynchronous.Client.complete)

    # Ping, logging and roots
    ping = waiting("client", asynchronous.Client.ping)
    set_log_level = waiting("client", asynchronous.Client.set_log_level)
    change_roots = waiting("client", asynchronous.Client.change_roots)
