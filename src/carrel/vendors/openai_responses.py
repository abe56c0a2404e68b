"""Tools and contents in the format of OpenAI's Responses API.

https://platform.openai.com/docs/api-reference/responses
https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carrel.vendors.declaration import Declaration, description_of
from carrel.vendors.pieces import MediaContent, Piece, as_text, error_text, joined, pieces, pieces_of_result
from carrel.vendors.responses import ModelCall, decoded_arguments, member
from carrel.vendors.schemas import object_schema, renamed
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents
from carrel.wire.tools import Tool

__all__ = ["IMAGES", "PROPERTY", "calls", "content", "declare", "tool_list", "tool_result", "tool_results"]

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def declare(tool: Tool, *, description_limit: int | None = None) -> Declaration:
    """Return a tool for ``tools``, not strict, as few schemas of servers are. Its name has to be valid already."""
    schema, originals = renamed(object_schema(tool.input_schema), PROPERTY)
    declared: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": schema, "strict": False}
    if text := description_of(tool, description_limit):
        declared["description"] = text
    return Declaration(declared, originals)


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls in a response."""
    return [
        ModelCall(
            str(member(item, "call_id")), str(member(item, "name")), decoded_arguments(member(item, "arguments") or {})
        )
        for item in member(response, "output") or []
        if member(item, "type") == "function_call"
    ]


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
    """Return content blocks, or contents of a resource, as parts of a message of the user. PDF is a file.

    Audio, and images of other formats, are replaced by a line that describes them.
    """
    return [_part(piece) for piece in pieces(blocks)]


def tool_result(result: ToolResultContent) -> dict[str, Any]:
    """Return a result of a tool as an input item: text, or a list of parts if there are images or files."""
    found = pieces_of_result(result)
    parts = [_part(piece) for piece in found]
    output: str | list[dict[str, Any]]
    if all(part["type"] == "input_text" for part in parts):
        output = error_text(joined(found)) if result.is_error else joined(found)
    else:
        output = [{"type": "input_text", "text": "Error:"}, *parts] if result.is_error else parts
    return {"type": "function_call_output", "call_id": result.tool_use_id, "output": output}


def tool_results(results: Sequence[ToolResultContent], names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the input items with the results of the tools that one response called."""
    return [tool_result(result) for result in results]


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case MediaContent(kind="image") if piece.mime_type in IMAGES:
            return {"type": "input_image", "image_url": piece.data_uri, "detail": "auto"}
        case MediaContent(kind="pdf"):
            return {"type": "input_file", "filename": piece.file_name, "file_data": piece.data_uri}
    return {"type": "input_text", "text": as_text(piece)}
