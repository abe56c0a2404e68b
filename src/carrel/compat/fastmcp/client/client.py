"""Client: session with a server, over any transport, with handlers for server requests."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pydantic_core

from carrel.compat.fastmcp.client.elicitation import ElicitationHandler, elicitation_callback
from carrel.compat.fastmcp.client.extension_hooks import all_extensions
from carrel.compat.fastmcp.client.logging import LogHandler, default_log_handler
from carrel.compat.fastmcp.client.messages import MessageHandlerT
from carrel.compat.fastmcp.client.opening import opening_of
from carrel.compat.fastmcp.client.progress import ProgressHandler, default_progress_handler
from carrel.compat.fastmcp.client.results import CallToolResult, Reader
from carrel.compat.fastmcp.client.roots import RootsHandler, RootsList, roots_callback
from carrel.compat.fastmcp.client.sampling import SamplingHandler, sampling_callback
from carrel.compat.fastmcp.client.session import takes_claimed
from carrel.compat.fastmcp.client.transports import infer_transport, status_errors
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.utilities.components import read_model
from carrel.compat.mcp import types
from carrel.compat.mcp.client.session import ClientSession
from carrel.compat.mcp.types import base
from carrel.compat.wire import as_model

if TYPE_CHECKING:
    from carrel.compat.mcp2.client.extension import ClientExtension, ResultClaim

__all__ = ["CallToolResult", "Client"]

TransportT = TypeVar("TransportT")
PAGES = 250


def _delta(seconds: datetime.timedelta | float | None) -> datetime.timedelta | None:
    return datetime.timedelta(seconds=seconds) if isinstance(seconds, int | float) else seconds


class Client(Generic[TransportT]):
    """Client of one server. Enter it, then send requests; it can be entered again while it is."""

    def __init__(
        self,
        transport: Any,
        name: str | None = None,
        roots: RootsList | RootsHandler | None = None,
        sampling_handler: SamplingHandler | None = None,
        sampling_capabilities: Any = None,
        elicitation_handler: ElicitationHandler | None = None,
        log_handler: LogHandler | None = None,
        message_handler: MessageHandlerT | None = None,
        progress_handler: ProgressHandler | None = None,
        timeout: datetime.timedelta | float | None = None,
        auto_initialize: bool = True,
        init_timeout: datetime.timedelta | float | None = None,
        client_info: base.Implementation | None = None,
        auth: Any = None,
        verify: Any = None,
        mode: str | None = None,
        extensions: Sequence[ClientExtension] | None = None,
        result_claims: Mapping[str, Sequence[ResultClaim[Any]]] | None = None,
        cache: Any = None,
    ) -> None:
        self.name = name or "Client"
        self.cache = cache  # without effect: every request is sent
        self.mode = mode
        self._open = opening_of(mode)
        self.transport = infer_transport(transport)
        if verify is not None:
            self.transport.set_verify(verify)
        if auth is not None:
            self.transport.set_auth(auth)
        self._options: dict[str, Any] = {
            "logging_callback": log_handler or default_log_handler,
            "message_handler": message_handler,
            "read_timeout_seconds": _delta(timeout),
            "client_info": client_info,
        }
        if roots is not None:
            self.set_roots(roots)
        if sampling_handler is not None:
            self.set_sampling_callback(sampling_handler, sampling_capabilities)
        if elicitation_handler is not None:
            self.set_elicitation_callback(elicitation_handler)
        self._claims: dict[type[Any], ResultClaim[Any]] = {}
        self._add_extensions(extensions or (), result_claims or {})
        self._progress_handler = progress_handler or default_progress_handler
        self._auto_initialize = auto_initialize
        self._init_timeout = settings.client_init_timeout if init_timeout is None else init_timeout
        self._session: ClientSession | None = None
        self._initialized: types.InitializeResult | None = None
        self._entered = 0
        self._leave = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._reader = Reader()

    def __repr__(self) -> str:
        return f"<Client {self.name!r} on {self.transport!r}>"

    def _add_extensions(self, given: Sequence[ClientExtension], more: Mapping[str, Sequence[ResultClaim[Any]]]) -> None:
        """Declare extensions, and take the results of tool calls that they add."""
        extensions = all_extensions(given, self._options.get("elicitation_callback"))
        claims = [claim for each in extensions.values() for claim in each.claims()]
        claims += [claim for each in more.values() for claim in each]
        self._claims = {claim.model: claim for claim in claims}
        if extensions:
            self._options["extensions"] = {name: each.settings() for name, each in extensions.items()}
            self._options["claims"] = claims

    # The session

    async def __aenter__(self) -> Client[TransportT]:
        async with self._lock:
            if self._entered == 0:
                try:
                    self._session = await self._leave.enter_async_context(
                        self.transport.connect_session(**self._options)
                    )
                    if self._auto_initialize:
                        with status_errors(getattr(self.transport, "url", "")):
                            await self.initialize()
                except BaseException as error:
                    await self._close()
                    if isinstance(error, OSError):
                        raise RuntimeError(f"Client failed to connect: {error}") from error
                    raise
            self._entered += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        async with self._lock:
            self._entered = max(0, self._entered - 1)
            if self._entered == 0:
                await self._close()

    async def _close(self) -> None:
        leave, self._leave = self._leave, AsyncExitStack()
        self._session = self._initialized = None
        await leave.aclose()

    async def close(self) -> None:
        """End the session."""
        async with self._lock:
            self._entered = 0
            await self._close()

    def new(self) -> Client[TransportT]:
        """Return a client with the same settings and a new session."""
        other: Client[TransportT] = Client.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._session = other._initialized = None
        other._entered, other._leave, other._lock = 0, AsyncExitStack(), asyncio.Lock()
        return other

    @property
    def session(self) -> ClientSession:
        """The session.

        Raises:
            RuntimeError: the client is not connected.
        """
        if self._session is None:
            raise RuntimeError("Client is not connected. Use the 'async with client:' context manager first.")
        return self._session

    @property
    def initialize_result(self) -> types.InitializeResult | None:
        """Declaration of the server; None before that."""
        return self._initialized

    @property
    def protocol_version(self) -> str | None:
        """Revision of the session; None before that."""
        return self._initialized and str(self._initialized.protocolVersion)

    @property
    def server_capabilities(self) -> types.ServerCapabilities | None:
        """Capabilities of the server; None before the session."""
        return self._initialized and self._initialized.capabilities

    @property
    def server_info(self) -> base.Implementation | None:
        """Name and version of the server; None before the session."""
        return self._initialized and self._initialized.serverInfo

    @property
    def instructions(self) -> str | None:
        """Instructions of the server, if it has any."""
        return self._initialized and self._initialized.instructions

    def is_connected(self) -> bool:
        """Return whether there is a session."""
        return self._session is not None

    async def initialize(self, timeout: datetime.timedelta | float | None = None) -> types.InitializeResult:
        """Open the session, unless it is open.

        Raises:
            RuntimeError: the server does not respond in time.
        """
        if self._initialized is None:
            limit = _delta(self._init_timeout if timeout is None else timeout)
            try:
                async with asyncio.timeout(None if limit is None else limit.total_seconds()):
                    self._initialized = await self._open(self.session)
            except TimeoutError:
                raise RuntimeError("Failed to initialize server session") from None
        return self._initialized

    def limit_requests(self, limit: datetime.timedelta | None) -> None:
        """Set how long requests may take, for sessions to come."""
        self._options["read_timeout_seconds"] = limit

    def set_roots(self, roots: RootsList | RootsHandler) -> None:
        """Set the roots, for sessions to come."""
        self._options["list_roots_callback"] = roots_callback(roots)

    def set_sampling_callback(self, sampling_callback_: SamplingHandler, sampling_capabilities: Any = None) -> None:
        """Set the handler of sampling requests, for sessions to come."""
        self._options["sampling_callback"] = sampling_callback(sampling_callback_)
        self._options["sampling_capabilities"] = sampling_capabilities

    def set_elicitation_callback(self, elicitation_callback_: ElicitationHandler) -> None:
        """Set the handler of forms, for sessions to come."""
        self._options["elicitation_callback"] = elicitation_callback(elicitation_callback_)

    # Requests

    async def ping(self) -> bool:
        """Send a ping."""
        return isinstance(await self.session.send_ping(), base.EmptyResult)

    async def cancel(self, request_id: str | int, reason: str | None = None) -> None:
        """Cancel a request."""
        params = types.CancelledNotificationParams(requestId=request_id, reason=reason)
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    async def progress(
        self, progress_token: str | int, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification."""
        await self.session.send_progress_notification(progress_token, progress, total, message)

    async def set_logging_level(self, level: types.LoggingLevel) -> None:
        """Set the level from which on the server sends log messages."""
        await self.session.set_logging_level(level)

    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self.session.send_roots_list_changed()

    async def _all(self, method: str, field: str, max_pages: int) -> list[Any]:
        """Return all pages of a list.

        Raises:
            RuntimeError: the list has more pages.
        """
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(max_pages):
            page = await getattr(self.session, method)(cursor)
            found += getattr(page, field)
            if not page.nextCursor or page.nextCursor == cursor:
                return found
            cursor = page.nextCursor
        raise RuntimeError(
            f"Reached auto-pagination limit ({max_pages} pages) for {method}. "
            f"Use {method}_mcp() with a cursor, or increase max_pages."
        )

    async def list_tools(self, *, max_pages: int = PAGES) -> list[types.Tool]:
        """Return the tools."""
        found = await self._all("list_tools", "tools", max_pages)
        self._schemas = {tool.name: tool.outputSchema for tool in found}
        return found

    async def list_tools_mcp(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """Return a page of the tools."""
        return await self.session.list_tools(cursor)

    async def list_resources(self, *, max_pages: int = PAGES) -> list[types.Resource]:
        """Return the resources."""
        return await self._all("list_resources", "resources", max_pages)

    async def list_resources_mcp(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """Return a page of the resources."""
        return await self.session.list_resources(cursor)

    async def list_resource_templates(self, *, max_pages: int = PAGES) -> list[types.ResourceTemplate]:
        """Return the resource templates."""
        return await self._all("list_resource_templates", "resourceTemplates", max_pages)

    async def list_resource_templates_mcp(self, *, cursor: str | None = None) -> types.ListResourceTemplatesResult:
        """Return a page of the resource templates."""
        return await self.session.list_resource_templates(cursor)

    async def list_prompts(self, *, max_pages: int = PAGES) -> list[types.Prompt]:
        """Return the prompts."""
        return await self._all("list_prompts", "prompts", max_pages)

    async def list_prompts_mcp(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """Return a page of the prompts."""
        return await self.session.list_prompts(cursor)

    async def call_tool_mcp(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        progress_handler: ProgressHandler | None = None,
        timeout: datetime.timedelta | float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> types.CallToolResult:
        """Call a tool, and return the result of the protocol."""
        params = types.CallToolRequestParams(name=name, arguments=arguments or {})
        if meta is not None:
            params.meta = base.RequestParams.Meta(**meta)
        claiming = takes_claimed.set(True)
        try:
            found = await self.session.send_request(
                types.CallToolRequest(params=params),
                types.CallToolResult,
                _delta(timeout),
                progress_callback=progress_handler or self._progress_handler,
            )
        finally:
            takes_claimed.reset(claiming)
        claim = self._claims.get(type(found))
        return found if claim is None else await self._finished(claim, found, name, timeout)

    async def _finished(
        self, claim: ResultClaim[Any], found: Any, name: str, timeout: datetime.timedelta | float | None
    ) -> types.CallToolResult:
        """Return the result of a tool call that an extension makes of its own."""
        from carrel.compat.mcp2.client.extension import ClaimContext

        limit = _delta(timeout) or self._options["read_timeout_seconds"]
        seconds = None if limit is None else limit.total_seconds()
        context = ClaimContext(session=self.session, tool_name=name, read_timeout_seconds=seconds)
        result: types.CallToolResult = as_model(await claim.resolve(found, context), types.CallToolResult)
        return result

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: datetime.timedelta | float | None = None,
        progress_handler: ProgressHandler | None = None,
        raise_on_error: bool = True,
        meta: dict[str, Any] | None = None,
        version: str | None = None,
        **_: Any,
    ) -> CallToolResult:
        """Call a tool.

        Raises:
            ToolError: it failed, and ``raise_on_error`` is true.
            McpError: the server sent an error response, did not respond in time, or is gone.
        """
        if version is not None:
            meta = {**(meta or {}), "fastmcp": {"version": version}}
        result = await self.call_tool_mcp(name, arguments, progress_handler, timeout, meta)
        if result.isError and raise_on_error:
            text = getattr(result.content[0], "text", None) if result.content else None
            raise ToolError(text if text is not None else f"Tool '{name}' returned an error")
        if result.structuredContent and not result.isError and name not in self._schemas:
            await self.list_tools()
        return self._reader.read(name, result, self._schemas.get(name))

    async def read_resource_mcp(self, uri: Any, **_: Any) -> types.ReadResourceResult:
        """Read a resource, and return the result of the protocol."""
        return await self.session.read_resource(uri)

    async def read_resource(self, uri: Any, **_: Any) -> list[types.TextResourceContents | types.BlobResourceContents]:
        """Return the contents of a resource."""
        return list((await self.session.read_resource(uri)).contents)

    async def get_prompt_mcp(
        self, name: str, arguments: dict[str, Any] | None = None, **_: Any
    ) -> types.GetPromptResult:
        """Return the messages of a prompt. Arguments that are no text are sent as JSON."""
        given = {
            key: value if isinstance(value, str) else pydantic_core.to_json(value).decode()
            for key, value in (arguments or {}).items()
        }
        return await self.session.get_prompt(name, given if arguments else None)

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None, **_: Any) -> types.GetPromptResult:
        """Return the messages of a prompt. Arguments that are no text are sent as JSON."""
        return await self.get_prompt_mcp(name, arguments)

    async def complete_mcp(
        self, ref: Any, argument: dict[str, str], context_arguments: dict[str, Any] | None = None
    ) -> types.CompleteResult:
        """Return suggestions for an argument, as the result of the protocol."""
        return await self.session.complete(read_model(ref), argument, context_arguments)

    async def complete(
        self, ref: Any, argument: dict[str, str], context_arguments: dict[str, Any] | None = None
    ) -> types.Completion:
        """Return suggestions for an argument."""
        return (await self.complete_mcp(ref, argument, context_arguments)).completion
