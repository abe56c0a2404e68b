"""Tools of a server: lists them, and calls them with the headers, tasks and output validation in their definitions.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from carrel.client.handlers import ClientCall, HeaderSource
from carrel.client.results import Results
from carrel.client.session import ClientSession
from carrel.errors import ConfigError, InvalidMessage, MCPError, MissingCapability, PeerError
from carrel.log import Log
from carrel.protocol.client import ServerNotification
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.http import SAFE_INTEGER, encode_value, header_parameters
from carrel.protocol.methods import FETCH_TASK_RESULT, LIST_TOOLS
from carrel.wire.base import PageParams, Result
from carrel.wire.tools import CallToolParams, CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.protocol.json_schema import Validator

__all__ = ["KnownTools", "ToolCalls", "requires_task"]

log = Log("carrel.client")

R = TypeVar("R", bound=Result)


class KnownTool(msgspec.Struct, eq=False):
    """Metadata of a listed tool. ``headers`` are paths of properties, by the header that mirrors them."""

    headers: Mapping[str, tuple[str, ...]]
    output_schema: dict[str, Any] | None
    tasks: str
    validator: Validator | None = None


class KnownTools:
    """Metadata of the tools that a server has listed, by name, with output schema validation."""

    def __init__(self) -> None:
        self._tools: dict[str, KnownTool] = {}
        self.complete = False
        """Whether all tools have been listed."""

    def forget(self) -> None:
        """Forget all tools, because the list has changed."""
        self._tools = {}
        self.complete = False

    def take(self, tools: Sequence[Tool], *, mirrored: bool) -> list[Tool]:
        """Store the metadata of tools, and return the callable tools.

        With ``mirrored``, parameters are mirrored in headers, and tools with invalid header annotations are left out.
        """
        usable: list[Tool] = []
        for tool in tools:
            try:
                headers = header_parameters(tool.input_schema) if mirrored else {}
            except ValueError as error:
                log.warning("the tool %s is left out: %s", tool.name, error)
                self._tools.pop(tool.name, None)
                continue
            self._tools[tool.name] = KnownTool(
                {name.decode(): path for name, path in headers.items()},
                tool.output_schema,
                "forbidden" if tool.execution is None else tool.execution.task_support or "forbidden",
            )
            usable.append(tool)
        return usable

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def tasks(self, name: str) -> str | None:
        """Return the task support of a tool: "required", "optional", "forbidden"; None if the tool is unknown."""
        tool = self._tools.get(name)
        return None if tool is None else tool.tasks

    def headers(self, params: CallToolParams) -> dict[str, str]:
        """Return the headers that mirror the arguments of a call.

        Raises:
            ConfigError: an integer argument is outside the safe range, and so cannot be in a header.
        """
        tool = self._tools.get(params.name)
        if tool is None or not tool.headers or params.arguments is UNSET:
            return {}
        arguments = msgspec.json.decode(params.arguments)
        found: dict[str, str] = {}
        for header, path in tool.headers.items():
            value: Any = arguments
            for step in path:
                value = value.get(step) if isinstance(value, Mapping) else None
            if isinstance(value, int) and abs(value) > SAFE_INTEGER:
                raise ConfigError(f"{'.'.join(path)} is repeated in a header, so it can be {SAFE_INTEGER} at most")
            if value is not None:
                found[header] = encode_value(value)
        return found

    def check(self, name: str, result: CallToolResult) -> None:
        """Validate a result against the output schema of its tool (JSON Schema), if the schema is known.

        Raises:
            InvalidMessage: the result does not match the schema.
        """
        tool = self._tools.get(name)
        if tool is None or tool.output_schema is None or result.is_error is True:
            return
        if result.structured_content is UNSET:
            raise InvalidMessage(f"The tool {name} has an output schema, but returned no structured content")
        if tool.validator is None:
            from carrel.protocol.json_schema import Validator

            try:
                tool.validator = Validator(tool.output_schema, "result", foreign=True)
                tool.validator.check()
            except ConfigError as error:
                log.warning("the output schema of the tool %s is not used: %s", name, error)
                tool.output_schema = None
                return
        try:
            tool.validator.validate(result.structured_content)
        except ValueError as error:
            raise InvalidMessage(f"The result of the tool {name} does not match its output schema: {error}") from None


class ToolCalls:
    """Tools of one session's server. Observes the session."""

    def __init__(self, session: ClientSession, results: Results) -> None:
        self.known = KnownTools()
        self._session = session
        self._results = results
        self.has_tasks = False
        """Whether the server declares the tasks capability of 2025-11-25, as far as is known."""
        session.observers.append(self)

    async def pages(self) -> AsyncIterator[list[Tool]]:
        """Iterate over the pages of tools, and store the metadata that calls need."""
        mirrored = (await self._session.connect()).transport.mirrors and self._session.stateless
        async for page in self._results.pages(LIST_TOOLS, PageParams()):
            yield self.known.take(page.tools, mirrored=mirrored)
        self.known.complete = True

    async def list_all(self) -> None:
        """List all tools."""
        async for _ in self.pages():
            pass

    def send(self, call: ClientCall[R]) -> Coroutine[Any, Any, R]:
        """Send ``tools/call``; over stateless HTTP, with the custom headers that the tool's input schema requires."""
        session = self._session
        connection, params = session.connection, call.params
        assert isinstance(params, CallToolParams)
        if connection is None or connection.error is not None:
            return self._send_mirrored(call, params)
        revision = connection.connection.revision
        if connection.transport.mirrors and (revision is None or revision.stateless):
            if not self.known.complete and params.name not in self.known:
                return self._send_mirrored(call, params)
            call.headers = ParameterHeaders(self, params)
        return session.request(call)

    async def _send_mirrored(self, call: ClientCall[R], params: CallToolParams) -> R:
        session = self._session
        connection = await session.connect()
        if connection.transport.mirrors and session.stateless:
            if not self.known.complete and params.name not in self.known:
                await self.list_all()
            call.headers = ParameterHeaders(self, params)
        return await session.request(call)

    async def send_with_progress(self, call: ClientCall[R]) -> R:
        """Send ``tools/call`` so that progress is reported: as a task only if the tool requires a task.

        Tasks of 2026-07-28 have a status message instead of progress notifications. If a call declares the extension,
        the server decides whether it becomes a task.
        """
        connection = await self._session.connect()
        declared = connection.connection.capabilities
        extensions = declared.extensions or {}
        if not self._session.stateless or call.capabilities is not None or TASKS.name not in extensions:
            return await self.send(call)
        others = {name: each for name, each in extensions.items() if name != TASKS.name}
        call.capabilities = msgspec.structs.replace(declared, extensions=others or None)
        try:
            return await self.send(call)
        except PeerError as error:
            if not requires_task(error):
                raise
        call.capabilities = None
        return await self.send(call)

    async def may_be_task(self, name: str, *, required: bool = False) -> bool:
        """Return whether calls of a tool may be tasks of 2025-11-25; with ``required``, whether they must be.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
        """
        session = self._session
        await session.connect()
        tasks = session.capabilities.tasks
        if session.stateless or tasks is None or not session.knows(FETCH_TASK_RESULT):
            return False
        if "call" not in tasks.get("requests", {}).get("tools", {}):
            return False
        if name not in self.known and not self.known.complete:
            await self.list_all()
        return self.known.tasks(name) in (("required",) if required else ("required", "optional"))

    # Observer of the session

    def connected(self) -> None:
        """Clear the metadata, as the connection is new."""
        self.known.forget()
        self.has_tasks = self._session.capabilities.tasks is not None

    def notified(self, notification: ServerNotification) -> None:
        """Clear the metadata if the list of tools has changed."""
        if notification.event == "tools_list_changed":
            self.known.forget()

    def missed(self) -> None:
        """Clear the metadata, as the list of tools may have changed."""
        self.known.forget()


class ParameterHeaders(HeaderSource):
    """Headers that mirror the arguments of a tool call, as the tool's input schema requires.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
    """

    def __init__(self, tools: ToolCalls, params: CallToolParams) -> None:
        self._tools = tools
        self._params = params

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the call."""
        return self._tools.known.headers(self._params)

    async def refresh(self) -> None:
        """List the tools again."""
        self._tools.known.forget()
        await self._tools.list_all()


def requires_task(error: MCPError) -> bool:
    """Return whether a call was rejected because it did not declare the tasks extension (2026-07-28)."""
    if not isinstance(error, PeerError) or error.code != MissingCapability.code or not isinstance(error.data, dict):
        return False
    required = error.data.get("requiredCapabilities")
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS.name in extensions
