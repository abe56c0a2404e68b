"""LangChain: tools of MCP servers as tools of ``langchain-core``, asynchronous and synchronous.

https://docs.langchain.com/oss/python/langchain/tools
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import PrivateAttr

from carrel.agents.calls import Toolbox
from carrel.agents.threads import wait_in_thread
from carrel.vendors.declaration import description_of
from carrel.vendors.pieces import MediaContent, Piece, as_text, joined, pieces, pieces_of_result
from carrel.vendors.schemas import object_schema
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents

__all__ = ["LangChainTool", "content", "make_tools"]


class LangChainTool(StructuredTool):
    """Tool of an MCP server. The result is content for the model; its artifact is the ``CallToolResult``.

    Errors are raised as ``ToolException`` and handled: they become messages with the status "error".
    """

    _toolbox: Toolbox = PrivateAttr()

    # The base class takes arguments named ``config`` and ``run_manager`` away from the tool.

    async def _arun(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        result = await self._toolbox.call(self.name, arguments)
        found = pieces_of_result(result)
        if result.is_error:
            raise ToolException(joined(found) or "the tool failed without a message")
        return _content(found), result

    def _run(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        return wait_in_thread(self._arun(**arguments), self._toolbox.loop, "use ainvoke() in it")


def make_tools(toolbox: Toolbox, description_limit: int | None = None) -> list[BaseTool]:
    """Return the tools as they are now."""
    found: list[BaseTool] = []
    for name, tool in toolbox.tools.items():
        made = LangChainTool(
            name=name,
            description=description_of(tool, description_limit) or name,
            args_schema=object_schema(tool.input_schema),
            response_format="content_and_artifact",
            handle_tool_error=True,
            metadata={"mcp": {"annotations": _annotations(tool.annotations)}},
        )
        made._toolbox = toolbox
        found.append(made)
    return found


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
    """Return content blocks, or contents of a resource, as LangChain's standard content blocks."""
    return [_block(piece) for piece in pieces(blocks)]


def _content(found: list[Piece]) -> str | list[dict[str, Any]]:
    if any(isinstance(piece, MediaContent) and piece.kind != "other" for piece in found):
        return [_block(piece) for piece in found]
    return joined(found)


def _block(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, MediaContent) and piece.kind != "other":
        kind = "file" if piece.kind == "pdf" else piece.kind
        return {"type": kind, "base64": piece.base64, "mime_type": piece.mime_type}
    return {"type": "text", "text": as_text(piece)}


def _annotations(annotations: Any) -> dict[str, Any]:
    import msgspec

    return {} if annotations is None else dict(msgspec.to_builtins(annotations))
