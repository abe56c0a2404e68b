"""Tools and contents in the format of Anthropic's Messages API.

https://docs.anthropic.com/en/api/messages
https://docs.anthropic.com/en/docs/build-with-claude/tool-use
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carrel.vendors.declaration import Declaration, description_of
from carrel.vendors.pieces import (
    MediaContent,
    Piece,
    ResourceText,
    TextPiece,
    as_text,
    described,
    pieces,
    pieces_of_result,
)
from carrel.vendors.responses import ModelCall, member
from carrel.vendors.schemas import object_schema, renamed
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents
from carrel.wire.tools import Tool

__all__ = ["calls", "content", "declare", "tool_list", "tool_result", "tool_results"]

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def declare(tool: Tool, *, description_limit: int | None = None) -> Declaration:
    """Return a tool for ``tools``. Its name has to be valid already."""
    schema, originals = renamed(object_schema(tool.input_schema), PROPERTY)
    declared: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if text := description_of(tool, description_limit):
        declared["description"] = text
    return Declaration(declared, originals)


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the tool uses in a message."""
    blocks = member(response, "content")
    return [
        ModelCall(str(member(block, "id")), str(member(block, "name")), member(block, "input") or {})
        for block in (blocks if isinstance(blocks, list) else [])
        if member(block, "type") == "tool_use"
    ]


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
    """Return content blocks, or contents of a resource, as blocks of a message.

    Text and PDF of resources are documents. Audio, and images of other formats, are replaced by a line that describes
    them.
    """
    return [_block(piece) for piece in pieces(blocks)]


def tool_result(result: ToolResultContent) -> dict[str, Any]:
    """Return a result of a tool as a block of a message. One that is an error has only text, as the vendor demands."""
    found = pieces_of_result(result)
    blocks = [_text(as_text(piece)) if result.is_error else _block(piece) for piece in found]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": blocks}
    if result.is_error:
        block["is_error"] = True
    return block


def tool_results(results: Sequence[ToolResultContent], names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the messages with the results of the tools that one message used: one message; none without results."""
    return [{"role": "user", "content": [tool_result(result) for result in results]}] if results else []


def _block(piece: Piece) -> dict[str, Any]:
    match piece:
        case TextPiece():
            return _text(piece.text)
        case ResourceText():
            source = {"type": "text", "media_type": "text/plain", "data": piece.text}
            return {"type": "document", "source": source, "title": _title(piece.uri)}
        case MediaContent(kind="image") if piece.mime_type in IMAGES:
            return {"type": "image", "source": _base64(piece)}
        case MediaContent(kind="pdf"):
            title = {"title": _title(piece.uri)} if piece.uri else {}
            return {"type": "document", "source": _base64(piece), **title}
        case MediaContent():
            return _text(described(piece))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _base64(media: MediaContent) -> dict[str, Any]:
    return {"type": "base64", "media_type": media.mime_type, "data": media.base64}


def _title(uri: str) -> str:
    return uri[:500]
