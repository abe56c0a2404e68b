"""MCP client for servers of every protocol revision: resources, tools, tasks, skills, prompts, completion and logging.

https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from carrel.client.endpoints import Target, find_endpoint
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import ClientCall, Handlers, Progress, RootsSource
from carrel.client.not_found import is_not_found
from carrel.client.results import PagedList, Results
from carrel.client.retry import Retries
from carrel.client.session import ClientSession, LogReceiver, SessionOptions
from carrel.client.state import ClientState
from carrel.client.tool_calls import ToolCalls
from carrel.errors import ConfigError, PeerError, ResourceNotFound
from carrel.protocol import VERSION
from carrel.protocol.encoding import encode
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    DISCOVER,
    GET_PROMPT,
    LIST_PROMPTS,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    PING,
    READ_RESOURCE,
    ROOTS_LIST_CHANGED,
)
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation, LoggingLevel, PageParams, Params
from carrel.wire.completion import (
    CompleteParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import GetPromptParams, GetPromptResult, Prompt
from carrel.wire.resources import (
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from carrel.wire.tasks import DetailedTask
from carrel.wire.tools import CallToolParams, CallToolResult, Tool
from carrel.wire.utilities import SEVERITY

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.client.server_skills import ServerSkills
    from carrel.client.tasks import Tasks
    from carrel.client.watch import Watch
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

__all__ = ["Client"]

Reference: TypeAlias = PromptReference | ResourceTemplateReference


class Client:
    """MCP client of one server, which reconnects when the connection is lost.

        async with Client("https://example.org/mcp") as client:
            resources = await client.list_resources()
            result = await client.read_resource("book://lem/solaris")

    Use it as an async context manager. Concurrent use by several asyncio tasks is safe.

    Args:
        target: a URL, a command as a list, a ``carrel.Server`` in this process, or a function that returns a transport.
        name: name of this client in its client info; with ``version`` and ``title``.
        revision: the only revision to speak, instead of the newest that both sides support.
        timeout: seconds until a request times out, restarted by every progress notification. None: no limit.
        patience: seconds without a response to the first request until the initialize handshake is tried.
        retries: retry policy.
        handlers: handlers of the requests of the server: elicitation, sampling, roots. See ``carrel.client.handlers``.
        log: receives the log messages of the server, from ``log_level`` up.
        extensions: extensions of the protocol. See ``carrel.client.extensions``.
        cache: response cache. See ``carrel.client.cache``.
        fetch_web: fetch resources with https: URIs directly from the web, without the server.
        http: options of the connection to a URL: authorization, headers, TLS, proxy, limits.
        process: options of a command: environment variables, working directory, standard error.

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
        handlers: Handlers | None = None,
        log: LogReceiver | None = None,
        log_level: LoggingLevel | None = None,
        extensions: Sequence[ClientExtension] = (),
        cache: Cache | None = None,
        fetch_web: bool = False,
        http: HTTPOptions | None = None,
        process: ProcessOptions | None = None,
    ) -> None:
        if revision is not None and revision not in REVISIONS:
            raise ConfigError(f"there is no revision {revision!r}; they are {', '.join(REVISIONS)}")
        check_level(log_level)
        endpoint = find_endpoint(target, http=http, process=process)
        options = SessionOptions(
            info=Implementation(name, VERSION if version is None else version, title=title),
            handlers=handlers,
            extensions=(ClientExtension(TASKS), ClientExtension(SKILLS, declare=False), *extensions),
            settings={} if endpoint.credentials is None else endpoint.credentials.extensions,
            revision=None if revision is None else REVISIONS[revision],
            timeout=timeout,
            patience=patience,
            retries=Retries() if retries is None else retries,
            log=log,
            log_level=log_level,
        )
        self.session = ClientSession(endpoint, options)
        """The session with the server: for extensions, and for requests that the client has no method for."""
        self.results = Results(self.session, cache, fetch_web=fetch_web)
        """Sends requests that the cache or the web may answer."""
        self._tools = ToolCalls(self.session, self.results)
        self.tool_calls = self._tools
        """Sends calls of tools as they are, for providers of remote servers."""
        self._tasks: Tasks | None = None
        self._skills: ServerSkills | None = None

    async def __aenter__(self) -> Client:
        try:
            await self.session.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close every watch, fail pending requests, and close the connection. May be called more than once."""
        await self.session.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # The connection and the server

    @property
    def state(self) -> ClientState:
        """State of the connection, which can be awaited and observed."""
        return self.session.state

    @property
    def revision(self) -> str:
        """The negotiated revision."""
        return self.session.revision.name

    @property
    def server(self) -> Implementation | None:
        """Server info (name and version), as declared by the server and not verified."""
        return self.session.server.info

    @property
    def capabilities(self) -> ServerCapabilities:
        """The server's capabilities."""
        return self.session.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self.session.server.instructions

    # Resources

    def list_resources(self) -> PagedList[Resource]:
        """List the resources: await all of them, or iterate over pages that are fetched on demand."""

        async def pages() -> AsyncIterator[list[Resource]]:
            async for page in self.results.pages(LIST_RESOURCES, PageParams()):
                yield page.resources

        return PagedList(pages)

    def list_resource_templates(self) -> PagedList[ResourceTemplate]:
        """List the resource templates."""

        async def pages() -> AsyncIterator[list[ResourceTemplate]]:
            async for page in self.results.pages(LIST_RESOURCE_TEMPLATES, PageParams()):
                yield page.resource_templates

        return PagedList(pages)

    def list_directory(self, uri: str) -> PagedList[Resource]:
        """List the direct children of a directory resource.

        https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx

        Raises:
            MethodNotFound: the server does not support reading directories.
            PeerError: there is no such directory.
        """
        return self.skills.list_directory(uri)

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: Handlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
    ) -> ReadResourceResult:
        """Read a resource: text contents are str, blobs are bytes.

        https://modelcontextprotocol.io/specification/2026-07-28/server/resources#reading-resources

        Args:
            timeout: seconds until the request times out; None for the client's timeout, ``math.inf`` for no limit.
            progress: called with progress notifications.
            meta: further keys of ``_meta``.
            handlers: handlers that replace the client's handlers for server requests that this call causes.
            user_data: value that handlers get with the call.
            capabilities: the subset of the client's capabilities to declare with this request (2026-07-28).

        Raises:
            ResourceNotFound: there is no such resource. The message is the server's.
            PeerError: the server responded with another error.
        """
        call = ClientCall(
            READ_RESOURCE,
            ReadResourceParams(uri=uri),
            timeout,
            progress,
            meta,
            handlers,
            user_data,
            capabilities=capabilities,
        )
        try:
            return await (self.session.request if self.results.direct else self.results.request)(call)
        except PeerError as error:
            if is_not_found(error, uri):
                raise ResourceNotFound(uri, error.message) from error
            raise

    def watch(self, *uris: str, lists: Iterable[Literal["resources", "tools", "prompts"]] = ()) -> Watch:
        """Subscribe to changes of resources, and of lists.

            async with client.watch("book://lem/solaris", lists=["resources"]) as changes:
                async for change in changes: ...

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions

        Raises:
            MethodNotFound: the server does not support subscriptions (when the watch is entered).
        """
        from carrel.client.watch import Watch  # imported late, as few clients need it

        return Watch(self.session, uris, tuple(lists))

    # Tools

    def list_tools(self) -> PagedList[Tool]:
        """List the tools. Their annotations are untrusted hints, not permissions."""
        return PagedList(self._tools.pages)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: Handlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
        repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result; ``is_error`` is set if the tool failed.

        If the server creates a task, its result is awaited. With ``progress``, the call is a task only if the tool
        can be called in no other way, as tasks report none. See ``read_resource`` for the other options.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools

        Args:
            repeatable: retry the call after a lost connection, although it may have been delivered.

        Raises:
            PeerError: there is no such tool, or the arguments are invalid.
            InvalidMessage: the result does not match the tool's output schema.
        """
        if self._tools.has_tasks and await self._tools.may_be_task(name, required=True):
            task = await self.tasks.start_tool(
                name, arguments, meta=meta, handlers=handlers, user_data=user_data, capabilities=capabilities
            )
            result = await task.result()
        else:
            params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
            call: ClientCall[CallToolResult | DetailedTask] = ClientCall(
                CALL_TOOL,
                params,
                timeout,
                progress,
                meta,
                handlers,
                user_data,
                repeatable=repeatable,
                capabilities=capabilities,
            )
            send = self._tools.send if progress is None else self._tools.send_with_progress
            answer = await send(call)
            result = answer if type(answer) is CallToolResult else await self.tasks.follow(answer, call)
        self._tools.known.check(name, result)
        return result

    # Extensions

    @property
    def tasks(self) -> Tasks:
        """Tasks: tool calls that outlive their response."""
        if self._tasks is None:
            from carrel.client.tasks import Tasks

            self._tasks = Tasks(self.session, self.results, self._tools)
        return self._tasks

    @property
    def skills(self) -> ServerSkills:
        """Skills of the server."""
        if self._skills is None:
            from carrel.client.server_skills import ServerSkills

            self._skills = ServerSkills(self.session, self.results)
        return self._skills

    # Prompts

    def list_prompts(self) -> PagedList[Prompt]:
        """List the prompts."""

        async def pages() -> AsyncIterator[list[Prompt]]:
            async for page in self.results.pages(LIST_PROMPTS, PageParams()):
                yield page.prompts

        return PagedList(pages)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        handlers: Handlers | None = None,
        user_data: object = None,
        capabilities: ClientCapabilities | None = None,
    ) -> GetPromptResult:
        """Get a prompt: its messages, rendered with the arguments. See ``read_resource`` for the options.

        Raises:
            PeerError: there is no such prompt, or an argument is missing.
        """
        params = GetPromptParams(name=name, arguments=None if arguments is None else dict(arguments))
        call = ClientCall(GET_PROMPT, params, timeout, progress, meta, handlers, user_data, capabilities=capabilities)
        return await self.session.request(call)

    async def complete(
        self,
        reference: Prompt | ResourceTemplate | Reference | str,
        argument: str,
        value: str = "",
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return completions of ``value`` for an argument of a prompt or a variable of a resource template.

        A ``reference`` in text is a URI template if "{" or "://" is in it, else the name of a prompt.
        ``context`` holds the arguments that are already known.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        params = CompleteParams(
            ref=reference_of(reference),
            argument=CompletionArgument(name=argument, value=value),
            context=CompletionContext(arguments=dict(context)) if context else None,
        )
        return (await self.session.request(ClientCall(COMPLETE, params))).completion

    # Ping, logging and roots

    async def ping(self, *, timeout: float | None = None) -> None:
        """Ping the server: ``ping``, or ``server/discover`` in stateless revisions."""
        await self.session.connect()
        row = DISCOVER if self.session.stateless else PING
        await self.session.request(ClientCall(row, Params(), timeout=timeout))

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Set the minimum level of the server's log messages.

        Raises:
            MethodNotFound: the server does not support logging.
            ConfigError: there is no such level.
        """
        check_level(level)
        await self.session.set_log_level(level)

    async def change_roots(self, roots: RootsSource) -> None:
        """Replace the roots, and notify the server in revisions with sessions.

        Raises:
            ConfigError: the client was created without roots, or a root is invalid.
        """
        self.session.handlers.change_roots(roots)
        connection = await self.session.connect()
        if not self.session.stateless:
            connection.notify(ROOTS_LIST_CHANGED)


def check_level(level: LoggingLevel | None) -> None:
    if level is not None and level not in SEVERITY:
        raise ConfigError(f"there is no log level {level!r}; they are {', '.join(SEVERITY)}")


def reference_of(given: Prompt | ResourceTemplate | Reference | str) -> Reference:
    """Return the reference of a prompt or a resource template, which may be given as text."""
    if isinstance(given, str):
        is_template = "{" in given or "://" in given
        return ResourceTemplateReference(uri=given) if is_template else PromptReference(name=given)
    if isinstance(given, Prompt):
        return PromptReference(name=given.name)
    return ResourceTemplateReference(uri=given.uri_template) if isinstance(given, ResourceTemplate) else given
