"""ChatToolbox: the tools of all servers under names for the model, and their calls, each approved first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from carrel.catalog.tool_pages import for_models
from carrel.chat.approvals import Approvals, CallRejected
from carrel.chat.arguments import argument_error
from carrel.chat.contents import blocks_of_result, size_of, structured_beside
from carrel.chat.events import ChatEvent, ToolEnd, ToolProgress, ToolStart, ToolUseEvent
from carrel.chat.own_tools import OWN_TOOLS, READ_RESOURCE_TOOL, call_own_tool
from carrel.errors import MCPError, PeerError, TransportError
from carrel.host import Host
from carrel.near_names import did_you_mean
from carrel.vendors.names import ToolNames
from carrel.wire.client_features import ToolResultContent, ToolUseContent
from carrel.wire.content import ContentBlock, TextContent
from carrel.wire.tools import Tool

__all__ = ["READING", "REJECTED", "CallOrigin", "ChatToolbox"]

#: Characters of one tool result that go to the model.
RESULT_BUDGET = 100_000
#: Characters of a result that are shown.
SHOWN = 4000
#: Name under which reading resources of a server is approved; no tool of a server is called so.
READING = "@read_resource"
#: Beginning of the result of a call that the user has not approved.
REJECTED = "The user has not approved this call. Do not repeat it unless the user asks for it."


class CallOrigin(NamedTuple):
    """User data of the calls of a chat, by which a request of a server is known to belong to one: see ``Origin``."""

    server: str
    tool: str


class ChatToolbox:
    """Tools of a host for a model.

    Args:
        host: the servers.
        approvals: decides about each call.
        show: gets the events of calls.
        own_tools: whether the model gets tools by which it lists and reads resources.
        result_budget: how many characters of a result the model gets.
    """

    def __init__(
        self,
        host: Host,
        approvals: Approvals,
        show: Callable[[ChatEvent], None],
        *,
        own_tools: bool = True,
        result_budget: int = RESULT_BUDGET,
    ) -> None:
        self.host = host
        self.approvals = approvals
        self.own_tools = own_tools
        self.off: set[str] = set()
        """Servers ("server") and tools ("server:tool") that the model does not get."""
        self._show = show
        self._budget = result_budget
        self._names = ToolNames([("", name) for name in OWN_TOOLS], prefix=True)
        self._known: dict[str, tuple[str, Tool]] = {}

    async def tools(self) -> Sequence[Tool]:
        """Return the tools as the model shall see them, as they are now."""
        listed = [
            one
            for one in await self.host.list_tools()
            if one.server not in self.off
            and f"{one.server}:{one.item.name}" not in self.off
            and for_models((one.item.meta or {}).get("ui"))
        ]
        self._known = {self._names.name_of(one.server, one.item.name): (one.server, one.item) for one in listed}
        found = [
            Tool(name=name, description=described(tool), input_schema=tool.input_schema)
            for name, (_, tool) in self._known.items()
        ]
        if self.own_tools and any(server.state == "ready" for server in self.host.servers.values()):
            found += OWN_TOOLS.values()
        return found

    def find_tool(self, name: str) -> tuple[str, str]:
        """Return server and tool of a name that the model uses; the server is empty for tools of the chat."""
        known = self._known.get(name)
        return ("", name) if known is None else (known[0], known[1].name)

    async def call(self, use: ToolUseContent) -> ToolResultContent:
        """Call a tool after approval, and return its result. Errors are results: the model reads them."""
        unreadable = argument_error(use)
        if unreadable is not None:
            return unreadable
        server, tool = self.find_tool(use.name)
        self._show(ToolUseEvent(id=use.id, server=server, tool=tool, arguments=use.input))
        began = time.monotonic()
        outcome: Literal["done", "error", "rejected", "cancelled"] = "cancelled"
        content: list[ContentBlock] = []
        meta: dict[str, Any] | None = None
        try:
            if await self._approved(use):
                began = time.monotonic()
                self._show(ToolStart(id=use.id))
                content, failed, meta = await self._called(use)
                outcome = "error" if failed else "done"
            else:
                content, outcome = [TextContent(REJECTED)], "rejected"
        except asyncio.CancelledError:
            raise
        except CallRejected as rejected:
            content, outcome = [TextContent(f"{REJECTED} The user's reason: {rejected}")], "rejected"
        except MCPError as error:
            content, outcome = [TextContent(message_of(error))], "error"
        finally:
            self._show(
                ToolEnd(
                    id=use.id,
                    server=server,
                    tool=tool,
                    arguments=use.input,
                    outcome=outcome,
                    text=text_of(content)[:SHOWN],
                    size=size_of(content),
                    seconds=time.monotonic() - began,
                )
            )
        is_error = None if outcome == "done" else True
        return ToolResultContent(tool_use_id=use.id, content=content, is_error=is_error, meta=meta)

    async def _approved(self, use: ToolUseContent) -> bool:
        if use.name in self._known:
            server, tool = self._known[use.name]
            return await self.approvals.approve(self.host.server(server).config, tool, use.input, use.id)
        if use.name == READ_RESOURCE_TOOL.name and use.input.get("server") in self.host.servers:
            reading = msgspec.structs.replace(READ_RESOURCE_TOOL, name=READING)
            return await self.approvals.approve(
                self.host.server(use.input["server"]).config, reading, use.input, use.id
            )
        return True  # a listing, or a tool that there is not

    async def _called(self, use: ToolUseContent) -> tuple[list[ContentBlock], bool, dict[str, Any] | None]:
        """Return the content for the model, whether the call failed, and the ``_meta`` of the result."""
        if use.name not in self._known:
            if use.name in OWN_TOOLS and self.own_tools:
                return await call_own_tool(self.host, use.name, use.input, self._budget), False, None
            names = [*self._known, *(OWN_TOOLS if self.own_tools else ())]
            return [TextContent(f"There is no tool {use.name!r}{did_you_mean(use.name, names)}")], True, None

        async def progress(done: float, total: float | None, message: str | None) -> None:
            self._show(ToolProgress(id=use.id, progress=done, total=total, message=message))

        server, tool = self._known[use.name]
        origin = CallOrigin(server, tool.name)
        result = await self.host.call_tool(server, tool.name, use.input, progress=progress, user_data=origin)
        content = blocks_of_result(server, result, self._budget)
        return content, bool(result.is_error), structured_beside(result, self._budget)


def described(tool: Tool) -> str | None:
    """Return the description of a tool for the model, after its title if the title says more than the name."""
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None)
    parts = [part for part in (title if title != tool.name else None, tool.description) if part]
    return "\n".join(parts) or None


def message_of(error: MCPError) -> str:
    """Return an error as the model shall read it."""
    if isinstance(error, PeerError):
        return f"The server answered with an error: {error.message}"
    return f"The call failed: {error}" if isinstance(error, TransportError) else str(error)


def text_of(content: Sequence[Any]) -> str:
    """Return content as text; of everything else, its type and size."""
    return "\n".join(
        block.text if isinstance(block, TextContent) else f"[{block.mime_type}, {len(block.data):,} bytes]"
        for block in content
    )
