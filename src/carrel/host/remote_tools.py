"""RemoteTools: calls tools of a remote server, as tasks if the client and the server support tasks.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.provider import Page, Request
from carrel.catalog.task_channel import TaskChannel
from carrel.catalog.tool_pages import PAGE_KEYS, for_models, shows_pages, with_page_uris, without_page
from carrel.client.client import Client
from carrel.client.handlers import ClientCall
from carrel.client.options import CallOptions
from carrel.client.tool_calls import requires_task
from carrel.errors import InvalidParams, MCPError, MissingCapability, PeerError, ProtocolError
from carrel.host.relay import Relay
from carrel.host.remote_calls import RemoteCalls, passed_on, with_tasks
from carrel.protocol.encoding import CR, LF, encode
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.http import header_parameters, verify_parameters
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.passed_results import PassedResult
from carrel.wire.base import Result
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolParams, CallToolResult, TaskMetadata, Tool, ToolExecution

if TYPE_CHECKING:
    from carrel.catalog.request import TaskSupport
    from carrel.protocol.channel import Channel

__all__ = ["RemoteTools", "ToolTasks", "call_or_task", "for_peer"]


class ToolTasks(NamedTuple):
    """Task support of a tool. ``detaches``: the server decides during the call whether it becomes a task."""

    support: TaskSupport
    detaches: bool


def call_or_task(
    request: Request, tasks: ToolTasks | None, call: Callable[[Request], Coroutine[Any, Any, Any]]
) -> MaybeAwaitable[Result | bytes]:
    """Return the result of ``call``, or a result with a task if the call has become a task.

    ``tasks`` is the task support of the tool, or None if it does not support tasks. A task runs all of ``call``.

    Raises:
        MethodNotFound: the client requested a task, but the tool does not support tasks; or the tool requires a task,
            but the client did not request one (2025-11-25).
        MissingCapability: the tool requires a task, but the client did not declare the extension (2026-07-28).
    """
    contexts = request.contexts
    if contexts is None or (tasks is None and not asks_for_task(request)):
        return call(request)

    def work(channel: Channel) -> Coroutine[Any, Any, Any]:
        return call(msgspec.structs.replace(request, channel=channel))

    support, detaches = tasks or ToolTasks("forbidden", detaches=False)
    task = contexts.call_as_task(request, support, work, detaches=detaches)
    return call(request) if task is None else task


def asks_for_task(request: Request) -> bool:
    """Return whether the client wants the call of a tool to be a task (2025-11-25)."""
    return request.call is not None and getattr(request.call.params, "task", None) is not None


class RemoteTools:
    """Tools of one remote server: their headers and task support, which calls need."""

    def __init__(self, client: Client, calls: RemoteCalls) -> None:
        self._client = client
        self._calls = calls
        self._headers: dict[str, Mapping[bytes, tuple[str, ...]]] = {}
        self._tasks: dict[str, TaskSupport] = {}

    def keep(self, names: Container[str]) -> None:
        """Delete the headers and task support of tools that are not in ``names``: the changed list has been read."""
        self._headers = {name: headers for name, headers in self._headers.items() if name in names}
        self._tasks = {name: support for name, support in self._tasks.items() if name in names}

    @property
    def _extension(self) -> bool:
        """Whether the server uses the tasks extension, and so decides which calls become tasks."""
        return self._client.session.stateless and TASKS.name in self._client.session.server_extensions

    def listed(self, tool: Tool) -> Tool:
        """Convert a tool of the server for clients, and store its headers and task support for calls."""
        session = self._client.session
        execution = tool.execution if not session.stateless and session.capabilities.tasks is not None else None
        if self._extension:
            execution = ToolExecution(task_support="optional")
        if execution is None:
            self._tasks.pop(tool.name, None)
        else:
            self._tasks[tool.name] = execution.task_support or "forbidden"
        try:
            headers = header_parameters(tool.input_schema)
        except ValueError:
            headers = {}  # HTTP clients ignore such a tool
        if headers:
            self._headers[tool.name] = headers
        else:
            self._headers.pop(tool.name, None)
        meta = tool.meta
        if meta is not None and not PAGE_KEYS.isdisjoint(meta):
            meta = with_page_uris(meta, str)
        if tool.execution is execution and tool.meta is meta:
            return tool
        return msgspec.structs.replace(tool, execution=execution, meta=meta)

    def tasks_of(self, name: str) -> ToolTasks | None:
        """Return the task support of a tool, or None if it does not support tasks or was not listed."""
        support = self._tasks.get(name, "forbidden")
        return None if support == "forbidden" else ToolTasks(support, self._extension)

    def call(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool, as a task if the client and the tool support it.

        Raises:
            InvalidParams: the arguments are not an object.
            HeaderMismatch: the headers of the request do not match the arguments that the tool repeats in headers.
        """
        tasks = self.tasks_of(name)
        if tasks is None and not asks_for_task(request):
            return self.run(name, arguments, request)
        self._checked(name, arguments, request)
        return call_or_task(request, tasks, lambda inner: self.run(name, arguments, inner))

    async def run(self, name: str, arguments: Raw, request: Request) -> CallToolResult | bytes:
        """Call a tool, and return its result, encoded for the client if there is one.

        The request may have become a task, see ``call_or_task``.

        Raises:
            InvalidParams, HeaderMismatch: see ``call``.
        """
        tool_calls, text = self._client.tool_calls, bytes(arguments)
        if name in self._headers or text[:1] != b"{" or LF in text or CR in text:
            arguments = self._checked(name, arguments, request)
        options = None
        if type(request.channel) is not TaskChannel and not tool_calls.has_tasks:
            options = self._calls.plain_options(request)
        if options is not None:
            call = ClientCall(CALL_TOOL, CallToolParams(name=name, arguments=arguments), whole=True, **options)
            relay = options.get("user_data")
            missing: MissingCapability | None = None
            with self._calls.errors():
                try:
                    answer: Any = await tool_calls.send(call)
                    if type(answer) is not PassedResult:
                        answer = await self._client.tasks.follow(answer, call)
                except PeerError as error:
                    missing = relay.missing if isinstance(relay, Relay) else None
                    if missing is None and error.code == MissingCapability.code:
                        answer = None  # it has not run: send it again as a task, if tasks are missing
                    else:
                        raise missing or error  # noqa: B904 - the server's error says less
                if answer is not None:
                    if answer.value.is_error and isinstance(relay, Relay) and relay.missing:
                        raise relay.missing
                    return passed_on(CALL_TOOL, request, answer)  # type: ignore[no-any-return]
        return await self._call(name, arguments, request)

    def _checked(self, name: str, arguments: Raw, request: Request) -> Raw:
        """Return the arguments, encoded again: without duplicate members and line breaks.

        Raises:
            InvalidParams, HeaderMismatch: see ``call``.
        """
        try:
            given = msgspec.json.decode(arguments, type=dict[str, Any])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: arguments: {error}", parameter="arguments") from None
        call = request.call
        if call is not None and call.raw_headers is not None and call.peer.revision.stateless and name in self._headers:
            verify_parameters(self._headers[name], call.raw_headers, given)
        return Raw(encode(given))

    async def _call(self, name: str, arguments: Raw, request: Request) -> CallToolResult | bytes:
        call = request.call
        as_task = type(request.channel) is TaskChannel
        waits = call is not None and not as_task and not call.peer.revision.stateless
        asked: list[Relay] = []

        async def start(relay: Relay | None, options: CallOptions) -> CallToolResult:
            if relay is not None:
                asked.append(relay)
            params = CallToolParams(name=name, arguments=arguments)
            if await self._client.tool_calls.may_be_task(name, required=not as_task):
                params.task = TaskMetadata()
            asking = ClientCall[Any](CALL_TOOL, params, whole=call is not None, **options)
            task = await self._client.tasks.start(asking)
            if as_task and relay is not None and task.id is not None:
                relay.detach()
            listening = asyncio.ensure_future(task.listen())  # avoid polling the server for each poll of the client
            try:
                return await task.result()
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

        async def send(relay: Relay | None, options: CallOptions) -> CallToolResult:
            try:
                return await start(relay, options)
            except MCPError as error:
                if not waits or not requires_task(error):
                    raise
            # The client does not use a task, but the server requires one: wait for the server's task.
            return await start(relay, with_tasks(options))

        try:
            result = await self._calls.send(
                f"call {name}", request, send, CallToolResult, repeatable=False, as_task=as_task
            )
        except ProtocolError as error:
            if error.code != MissingCapability.code or call is None or call.peer.revision.stateless:
                raise
            # Revisions before 2026-07-28 do not have this error; a tool whose server request fails returns an error
            # result.
            return CallToolResult(content=[TextContent(error.message)], is_error=True)
        value = result.value if isinstance(result, PassedResult) else result
        if value.is_error and call is not None and call.peer.revision.stateless:
            missing: MissingCapability | None = next((relay.missing for relay in asked if relay.missing), None)
            if missing is not None:
                raise missing
        return passed_on(CALL_TOOL, request, result)  # type: ignore[no-any-return]


def for_peer(page: Page[Tool], request: Request) -> Page[Tool]:
    """Return a page of tools for a client. If it does not show pages, remove ``_meta.ui``, and tools for pages only.

    https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
    """
    if request.call is None or shows_pages(request.call.peer):
        return page
    shown = [without_page(tool) for tool in page.items if for_models((tool.meta or {}).get("ui"))]
    return msgspec.structs.replace(page, items=shown)
