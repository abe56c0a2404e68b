"""Toolbox: the tools of a source under the names that a model sees, and the calls of a model, run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeVar

import msgspec

from carrel.agents.sources import ToolSource
from carrel.awaitables import resolved
from carrel.client.options import CallOptions
from carrel.errors import ConfigError, MCPError
from carrel.log import Log
from carrel.near_names import did_you_mean
from carrel.vendors.names import ToolNames
from carrel.vendors.responses import ModelCall
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["Approve", "FormatOptions", "ToolUse", "Toolbox", "error_result"]

log = Log("carrel.agents")
T = TypeVar("T")


class ToolUse(msgspec.Struct, frozen=True):
    """Tool call that a model requests. ``name`` is the tool's name as the model sees it.

    ``arguments`` have the names that the server expects. ``id`` is the vendor's id, or "".
    """

    server: str
    tool: Tool
    name: str
    arguments: Mapping[str, Any]
    id: str = ""


#: Decides whether a call is made: True; False, or a text that tells the model why not.
Approve: TypeAlias = Callable[[ToolUse], Awaitable[bool | str] | bool | str]


class FormatOptions(TypedDict, total=False):
    """Options of ``carrel.agents.tools_of``; see there."""

    approve: Approve | None
    prefix: bool
    description_limit: int | None
    options: CallOptions | None


class Toolbox:
    """Tools of a source for models.

    Args:
        source: where the tools come from.
        approve: called before each tool call, one at a time. Without it, all calls are made.
        prefix: whether all names begin with the server's name, and not only names that several servers use.
        options: options of the calls.
    """

    def __init__(
        self,
        source: ToolSource,
        *,
        approve: Approve | None = None,
        prefix: bool = False,
        options: CallOptions | None = None,
    ) -> None:
        self.tools: Mapping[str, Tool] = {}
        """The tools by the name that a model sees, which is also the name in them."""
        self._source = source
        self._approve = approve
        self._options: CallOptions = {} if options is None else options
        self._names = ToolNames(prefix=prefix)
        self._own: dict[str, tuple[str, Tool]] = {}
        self._asking = asyncio.Lock()
        self.loop = asyncio.get_running_loop()
        """The event loop of the servers."""

    async def refresh(self) -> bool:
        """Read the list again if it may have changed; return whether it has. In any event loop.

        Raises:
            MCPError: the server of a client is not available. Those of a host are left out.
        """
        return await self._run_in_loop(self._refresh())

    async def call(self, name: str, arguments: Any, *, id: str = "") -> CallToolResult:
        """Call a tool by name. Errors become a result with ``is_error``, for the model to read.

        Works in any event loop: frameworks with a synchronous API run tools in a separate loop.
        """
        return await self._run_in_loop(self._call(name, arguments, id))

    async def _run_in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self.loop:
            return await work
        if not self.loop.is_running():
            work.close()
            raise ConfigError("the event loop of the servers has stopped")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def _refresh(self) -> bool:
        if not self._source.changed:
            return False
        listed = await self._source.list_tools()
        self._names.add((server, tool.name) for server, tool in listed)
        own = {self._names.name_of(server, tool.name): (server, tool) for server, tool in listed}
        if own == self._own:
            return False
        self._own = own
        self.tools = {name: msgspec.structs.replace(tool, name=name) for name, (_, tool) in own.items()}
        return True

    async def _call(self, name: str, arguments: Any, id: str) -> CallToolResult:
        found = self._own.get(name)
        if found is None:
            gone = self._names.find(name) is not None
            why = "is not available any more" if gone else f"does not exist{did_you_mean(name, self._own)}"
            return error_result(f"The tool {name} {why}")
        if not isinstance(arguments, Mapping):
            return error_result(f"The arguments of {name} must be a JSON object")
        server, tool = found
        rejection = await self._ask(ToolUse(server, tool, name, arguments, id))
        if rejection is not None:
            return error_result(rejection)
        try:
            return await self._source.call_tool(server, tool.name, arguments, **self._options)
        except MCPError as error:
            log.info("a call of %s failed: %s", name, error)
            return error_result(str(error) or type(error).__name__)

    async def call_all(self, calls: Sequence[ModelCall]) -> list[ToolResultContent]:
        """Make all calls at the same time; return their results in the order of the calls."""
        tasks = [asyncio.ensure_future(self.call(call.name, call.arguments, id=call.id)) for call in calls]
        try:
            results = await asyncio.gather(*tasks)
        except BaseException:  # cancelled, or ``approve`` has raised
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [
            ToolResultContent(
                tool_use_id=call.id,
                content=result.content,
                structured_content=result.structured_content,
                is_error=result.is_error,
            )
            for call, result in zip(calls, results, strict=True)
        ]

    async def _ask(self, use: ToolUse) -> str | None:
        """Return why a call is not approved; None if it is."""
        if self._approve is None:
            return None
        async with self._asking:
            answer = await resolved(self._approve(use))
        if answer is True:
            return None
        return answer if isinstance(answer, str) and answer else f"The user did not allow the call of {use.name}"


def error_result(text: str) -> CallToolResult:
    """Return the result of a call that failed."""
    return CallToolResult(content=[TextContent(text)], is_error=True)
