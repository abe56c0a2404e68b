"""HostTools: tool source for ``carrel.agents`` with the tools of a host, and the options of ``Host.tools``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from carrel.client.options import CallOptions
from carrel.host.selection import Hosted, Selection
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.agents import Approve

__all__ = ["HostTools", "ToolsOptions", "make_tools", "selection_of"]


class ToolsOptions(Selection, total=False):
    """Options of ``Host.tools``: a selection, and the options of ``carrel.agents.tools_of``."""

    approve: Approve | None
    prefix: bool
    description_limit: int | None
    options: CallOptions | None


class HostTools:
    """Tools of selected servers. Implements ``carrel.agents.ToolSource``.

    ``list_tools`` and ``call_tool`` are the methods of the host.
    """

    #: List the tools each time, as the host caches its lists.
    changed = True

    def __init__(
        self,
        list_tools: Callable[..., Awaitable[list[Hosted[Tool]]]],
        call_tool: Callable[..., Awaitable[CallToolResult]],
        selection: Selection,
    ) -> None:
        self._list = list_tools
        self._call = call_tool
        self._selection = selection

    async def list_tools(self) -> Sequence[tuple[str, Tool]]:
        """Return the tools, each with the name of its server."""
        return [(found.server, found.item) for found in await self._list(**self._selection)]

    async def call_tool(
        self, server: str, name: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool of a server."""
        return await self._call(server, name, arguments, **options)


async def make_tools(source: HostTools, format: Any, options: ToolsOptions) -> Any:
    """Convert the tools of a source to a format."""
    from carrel.agents.formats import tools_of  # only imported if needed

    return await tools_of(
        source,
        format,
        approve=options.get("approve"),
        prefix=options.get("prefix", False),
        description_limit=options.get("description_limit"),
        options=options.get("options"),
    )


def selection_of(options: ToolsOptions) -> Selection:
    """Return only the selection from the options."""
    own = ToolsOptions.__annotations__.keys() - Selection.__annotations__.keys()
    return {key: value for key, value in options.items() if key not in own}  # type: ignore[return-value]
