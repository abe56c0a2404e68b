"""Tools of a remote server: listed for a client, and called, as a task where both sides can have that.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from carrel.catalog.provider import Page, Request
from carrel.client.client import Client
from carrel.client.options import CallOptions
from carrel.errors import InvalidParams, MCPError, MissingCapability, ProtocolError
from carrel.host.relay import Relay
from carrel.host.remote_calls import RemoteCalls, required_task, with_tasks
from carrel.protocol.client import RELATED_TASK
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.http import header_parameters, verify_parameters
from carrel.server.apps import for_models, shows_pages, without_page
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool, ToolExecution

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.server.options import TaskSupport

__all__ = ["RemoteTools", "for_peer"]


class RemoteTools:
    """Tools of one remote server, as far as calls need to know them."""

    def __init__(self, client: Client, calls: RemoteCalls) -> None:
        self._client = client
        self._calls = calls
        self._headers: dict[str, Mapping[bytes, tuple[str, ...]]] = {}
        self._tasks: dict[str, TaskSupport] = {}

    def forget(self) -> None:
        """Forget the tools: their list has changed."""
        self._headers.clear()
        self._tasks.clear()

    @property
    def _extension(self) -> bool:
        """Whether the server has tasks as of the extension, and decides itself which calls become tasks."""
        return self._client.session.stateless and TASKS.name in self._client.session.server_extensions

    def listed(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return tools of the server as they are offered here, and note what calls of them need."""
        session = self._client.session
        sessions = not session.stateless and session.capabilities.tasks is not None
        found = []
        for tool in tools:
            execution = tool.execution if sessions else None
            if self._extension:
                execution = ToolExecution(task_support="optional")
            if execution is not None:
                self._tasks[tool.name] = execution.task_support or "forbidden"
            try:
                if headers := header_parameters(tool.input_schema):
                    self._headers[tool.name] = headers
            except ValueError:
                pass  # clients over HTTP leave it out
            found.append(tool if tool.execution is execution else msgspec.structs.replace(tool, execution=execution))
        return found

    def call(self, name: str, arguments: Raw, request: Request) -> Awaitable[Any]:
        """Call a tool.

        Raises:
            InvalidParams: the arguments are not an object.
            HeaderMismatch: the headers of the request do not repeat the arguments that the tool wants there.
        """
        try:
            given = msgspec.json.decode(arguments, type=dict[str, Any])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: arguments: {error}", parameter="arguments") from None
        call = request.call
        if call is None:
            return self._call(name, given, request)
        if call.raw_headers is not None and call.peer.revision.stateless and name in self._headers:
            verify_parameters(self._headers[name], call.raw_headers, given)
        support = self._tasks.get(name, "forbidden")
        if request.contexts is not None and (support != "forbidden" or getattr(call.params, "task", None) is not None):

            def work(channel: Channel) -> Any:
                inner = msgspec.structs.replace(request, channel=channel)
                return self._call(name, given, inner, as_task=True)

            task = request.contexts.call_as_task(request, support, work, detaches=self._extension)
            if task is not None:
                return task  # type: ignore[no-any-return]
        return self._call(name, given, request)

    async def _call(
        self, name: str, given: dict[str, Any], request: Request, *, as_task: bool = False
    ) -> CallToolResult:
        call = request.call
        waits = call is not None and not as_task and not call.peer.revision.stateless
        asked: list[Relay] = []

        async def start(relay: Relay | None, options: CallOptions) -> CallToolResult:
            if relay is not None:
                asked.append(relay)
            task = await self._client.tasks.start_tool(name, given, required=not as_task, **options)
            if as_task and relay is not None and task.id is not None:
                relay.detach()
            return unrelated(await task.result())

        async def send(relay: Relay | None, options: CallOptions) -> CallToolResult:
            try:
                return await start(relay, options)
            except MCPError as error:
                if not waits or not required_task(error):
                    raise
            # The client has no tasks, or has not asked for one: it waits for that of the server.
            return await start(relay, with_tasks(options))

        try:
            result = await self._calls.send(f"call {name}", request, send, repeatable=False, as_task=as_task)
        except ProtocolError as error:
            if error.code != MissingCapability.code or call is None or call.peer.revision.stateless:
                raise
            # Before 2026-07-28 there is no such error, and a tool that cannot ask fails.
            return CallToolResult(content=[TextContent(error.message)], is_error=True)
        if result.is_error and call is not None and call.peer.revision.stateless:
            missing: MissingCapability | None = next((relay.missing for relay in asked if relay.missing), None)
            if missing is not None:
                raise missing
        return result


def for_peer(page: Page[Tool], request: Request) -> Page[Tool]:
    """Return a page of tools for a client: without those for pages alone, and ``_meta.ui``, if it shows no pages.

    https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
    """
    pages = {tool.name: tool.meta["ui"] for tool in page.items if tool.meta and "ui" in tool.meta}
    if not pages or request.call is None or shows_pages(request.call.peer):
        return page
    shown = [
        without_page(tool)
        for tool in page.items
        if for_models(ui if isinstance(ui := pages.get(tool.name), dict) else None)
    ]
    return msgspec.structs.replace(page, items=shown)


def unrelated(result: CallToolResult) -> CallToolResult:
    """Return the result of a task without the name of the remote server's task in its ``_meta``."""
    if result.meta is None or RELATED_TASK not in result.meta:
        return result
    meta = {key: value for key, value in result.meta.items() if key != RELATED_TASK}
    return msgspec.structs.replace(result, meta=meta or None)
