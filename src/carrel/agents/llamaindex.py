"""LlamaIndex: tools of MCP servers as tools of ``llama-index-core``.

https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/tools/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock, TextBlock
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput
from pydantic import BaseModel, ConfigDict

from carrel.agents.calls import Toolbox
from carrel.agents.threads import wait_in_thread
from carrel.vendors.declaration import description_of
from carrel.vendors.pieces import MediaContent, Piece, as_text, pieces, pieces_of_result
from carrel.vendors.schemas import object_schema
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents
from carrel.wire.tools import Tool

__all__ = ["LlamaIndexTool", "content", "make_tools"]

#: Characters of a description: LlamaIndex raises an error for more.
LIMIT = 1024


class LlamaIndexTool(AsyncBaseTool):
    """Tool of an MCP server. ``raw_output`` of its output is the ``CallToolResult``."""

    def __init__(self, toolbox: Toolbox, tool: Tool, description_limit: int | None) -> None:
        self._toolbox = toolbox
        limit = LIMIT if description_limit is None else min(LIMIT, description_limit)
        self._metadata = ToolMetadata(
            description=description_of(tool, limit) or tool.name,
            name=tool.name,
            fn_schema=_model(tool.name, object_schema(tool.input_schema)),
        )

    @property
    def metadata(self) -> ToolMetadata:
        """Name, description and schema."""
        return self._metadata

    async def acall(self, /, *given: Any, **arguments: Any) -> ToolOutput:
        """Call the tool. An error is an output with ``is_error``."""
        for value in given:
            arguments = {**value, **arguments} if isinstance(value, Mapping) else arguments
        name = self._metadata.get_name()
        result = await self._toolbox.call(name, arguments)
        return ToolOutput(
            tool_name=name,
            blocks=[_block(piece) for piece in pieces_of_result(result)],
            raw_input=arguments,
            raw_output=result,
            is_error=result.is_error is True,
        )

    def call(self, /, *given: Any, **arguments: Any) -> ToolOutput:
        """Call the tool from a thread other than the thread of the servers' event loop."""
        return wait_in_thread(self.acall(*given, **arguments), self._toolbox.loop, "use acall() in it")


def make_tools(toolbox: Toolbox, description_limit: int | None = None) -> list[AsyncBaseTool]:
    """Return the tools as they are now."""
    return [LlamaIndexTool(toolbox, tool, description_limit) for tool in toolbox.tools.values()]


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[Any]:
    """Return content blocks, or contents of a resource, as blocks of a ``ChatMessage``."""
    return [_block(piece) for piece in pieces(blocks)]


def _block(piece: Piece) -> Any:
    if isinstance(piece, MediaContent):
        match piece.kind:
            case "image":
                return ImageBlock(image=piece.data, image_mimetype=piece.mime_type)
            case "audio":
                return AudioBlock(audio=piece.data, format=piece.mime_type.partition("/")[2])
            case "pdf":
                return DocumentBlock(data=piece.data, document_mimetype=piece.mime_type, title=piece.file_name)
    return TextBlock(text=as_text(piece))


def _model(name: str, schema: dict[str, Any]) -> type[BaseModel]:
    """Return a model with the tool's JSON Schema, because LlamaIndex describes arguments only as models."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *given: Any, **options: Any) -> dict[str, Any]:
            return schema

    Arguments.__name__ = name
    return Arguments
