"""VendorTools: the tools for a request to a vendor, and the results of the calls in its response."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from carrel.agents.calls import Toolbox
from carrel.vendors.declaration import Declaration
from carrel.vendors.responses import ModelCall
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ReadResourceResult, ResourceContents
from carrel.wire.tools import Tool

__all__ = ["VendorFormat", "VendorTools"]


class VendorFormat(Protocol):
    """Format of one vendor. The modules ``carrel.vendors.anthropic`` and others implement it."""

    def declare(self, tool: Tool, *, description_limit: int | None) -> Declaration:
        """Return a tool."""

    def tool_list(self, tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the value of ``tools`` in a request."""

    def calls(self, response: Any) -> list[ModelCall]:
        """Return the calls in a response."""

    def tool_results(self, results: Sequence[ToolResultContent], names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the messages with results of calls; ``names`` has the names of the tools by the ids of the calls."""

    def content(self, blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
        """Return content blocks or contents of resources."""


class VendorTools(list[Any]):
    """Tools in the format of a vendor: the list for a request's ``tools``, which follows the lists of the servers.

    It changes in place, between ``run`` of one response and the next request. Its entries, and what ``run`` returns,
    are dictionaries; their type is Any, so that they pass for the types of the vendor's SDK.
    """

    def __init__(self, toolbox: Toolbox, format: VendorFormat, description_limit: int | None = None) -> None:
        super().__init__()
        self._toolbox = toolbox
        self._format = format
        self._limit = description_limit
        self._declared: Mapping[str, Declaration] = {}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools, with their annotations and all else, by the name that the model sees."""
        return self._toolbox.tools

    async def refresh(self) -> bool:
        """Read the lists of the servers again if they may have changed; return whether they have.

        Raises:
            MCPError: the server of a client is not available.
        """
        if not await self._toolbox.refresh():
            return False
        tools = self._toolbox.tools
        self._declared = {
            name: self._format.declare(tool, description_limit=self._limit) for name, tool in tools.items()
        }
        self[:] = self._format.tool_list([declared.tool for declared in self._declared.values()])
        return True

    async def run(self, response: Any, *, ignore: Collection[str] = ()) -> list[Any]:
        """Make the calls in a response, at the same time, and return what to send next after the response.

        A call that fails, is not approved or names a tool that does not exist becomes an error for the model. Without
        calls the list is empty.

        Args:
            response: response of the vendor, as an object of its SDK or as a dictionary.
            ignore: names of tools that are not of these servers, whose calls are left to the caller.
        """
        calls = [self._restored(call) for call in self._format.calls(response) if call.name not in ignore]
        results = await self._toolbox.call_all(calls)
        messages = self._format.tool_results(results, {call.id: call.name for call in calls})
        await self.refresh()
        return messages

    def content(self, blocks: ReadResourceResult | Iterable[ContentBlock | ResourceContents]) -> list[Any]:
        """Return what reading a resource returned, or content blocks, as content of a message of the user."""
        return self._format.content(blocks.contents if isinstance(blocks, ReadResourceResult) else blocks)

    def _restored(self, call: ModelCall) -> ModelCall:
        declared = self._declared.get(call.name)
        if declared is None or not declared.originals or not isinstance(call.arguments, Mapping):
            return call
        return msgspec.structs.replace(call, arguments=declared.arguments(call.arguments))
