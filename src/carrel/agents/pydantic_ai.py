"""Pydantic AI: tools of MCP servers as a toolset of ``pydantic-ai-slim``, which follows the lists of the servers.

https://ai.pydantic.dev/toolsets/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_ai import RunContext, exceptions
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from carrel.agents.calls import Toolbox
from carrel.vendors.declaration import description_of
from carrel.vendors.pieces import MediaContent, Piece, as_text, joined, pieces, pieces_of_result
from carrel.vendors.schemas import object_schema
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents

__all__ = ["MCPToolset", "content", "make_tools"]

#: The server validates arguments itself.
ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
#: Error of a tool that the model reads. Older versions have only the one that counts as a retry.
ToolError: type[Exception] = getattr(exceptions, "ToolFailed", exceptions.ModelRetry)


class MCPToolset(AbstractToolset[Any]):
    """Tools of MCP servers. Their list is looked at before each request to the model."""

    def __init__(self, toolbox: Toolbox, description_limit: int | None = None) -> None:
        self._toolbox = toolbox
        self._limit = description_limit

    @property
    def id(self) -> str | None:
        """None: there may be several such toolsets."""
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools as they are now."""
        await self._toolbox.refresh()
        retries = getattr(ctx, "max_retries", None) or 1
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name,
                    description=description_of(tool, self._limit) or None,
                    parameters_json_schema=object_schema(tool.input_schema),
                    strict=False,
                ),
                max_retries=retries,
                args_validator=ARGUMENTS,
            )
            for name, tool in self._toolbox.tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool; its text, or a list of text and binary content.

        Raises:
            ToolFailed: the tool failed; the model gets the message.
        """
        result = await self._toolbox.call(name, tool_args, id=ctx.tool_call_id or "")
        found = pieces_of_result(result)
        if result.is_error:
            raise ToolError(joined(found) or "the tool failed without a message")
        if any(isinstance(piece, MediaContent) and piece.kind != "other" for piece in found):
            return [_part(piece) for piece in found]
        return joined(found)


def make_tools(toolbox: Toolbox, description_limit: int | None = None) -> MCPToolset:
    """Return the toolset."""
    return MCPToolset(toolbox, description_limit)


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[Any]:
    """Return content blocks, or contents of a resource, as content of a user prompt."""
    return [_part(piece) for piece in pieces(blocks)]


def _part(piece: Piece) -> str | BinaryContent:
    if isinstance(piece, MediaContent) and piece.kind != "other":
        return BinaryContent(piece.data, media_type=piece.mime_type)
    return as_text(piece)
