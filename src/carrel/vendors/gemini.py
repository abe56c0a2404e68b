"""Tools and contents in the format of Gemini's generateContent.

Bytes are bytes, as Google's SDK wants them; encoders of JSON make base64 of them.
https://ai.google.dev/api/caching#Content
https://ai.google.dev/gemini-api/docs/function-calling
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carrel.vendors.declaration import Declaration, description_of
from carrel.vendors.gemini_schema import gemini_schema
from carrel.vendors.pieces import MediaContent, Piece, as_text, joined, pieces, pieces_of_result
from carrel.vendors.responses import ModelCall, member
from carrel.vendors.schemas import inlined, object_schema, renamed
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents
from carrel.wire.tools import Tool

__all__ = ["calls", "content", "declare", "tool_list", "tool_results"]

MEDIA = (
    *("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif", "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
)
PROPERTY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")


def declare(tool: Tool, *, description_limit: int | None = None) -> Declaration:
    """Return a tool for ``functionDeclarations``. Its name has to be valid already."""
    schema, originals = renamed(object_schema(inlined(tool.input_schema)), PROPERTY)
    declared: dict[str, Any] = {"name": tool.name, "description": description_of(tool, description_limit) or tool.name}
    if schema["properties"]:  # an object without properties is refused
        declared["parameters"] = gemini_schema(schema)
    return Declaration(declared, originals)


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``: one with all functions."""
    return [{"functionDeclarations": list(tools)}] if tools else []


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls in a response, or in a content."""
    candidates = member(response, "candidates")
    answer = member(candidates[0], "content") if candidates else response
    found = [member(part, "function_call", "functionCall") for part in member(answer, "parts") or []]
    return [
        ModelCall(str(member(call, "id") or f"#{number}"), str(member(call, "name")), member(call, "args") or {})
        for number, call in enumerate(found)
        if call is not None
    ]


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
    """Return content blocks, or contents of a resource, as parts of a content.

    Media of formats that Gemini does not take are replaced by a line that describes them.
    """
    return [_part(piece) for piece in pieces(blocks)]


def tool_results(results: Sequence[ToolResultContent], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the contents with the results of the functions that one content called: one content; none without results.

    Images, audio and PDF follow the responses as parts of the same content, which models of every version accept.

    Args:
        names: names of the functions by the id of the call. A call to which Gemini gave no id has one that begins with
            a ``#``, which is not sent.
    """
    responses: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        texts: list[Piece] = []
        media: list[dict[str, Any]] = []
        for piece in pieces_of_result(result):
            part = _part(piece)
            if "text" in part:
                texts.append(piece)
            else:
                media.append(part)
        name = names[result.tool_use_id]
        if media:
            shown += [{"text": f"Attachments of the result of {name}:"}, *media]
        response = {"error" if result.is_error else "output": joined(texts)}
        called = {"name": name, "response": response}
        if not result.tool_use_id.startswith("#"):
            called["id"] = result.tool_use_id
        responses.append({"functionResponse": called})
    return [{"role": "user", "parts": [*responses, *shown]}] if responses else []


def _part(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, MediaContent) and piece.mime_type in MEDIA:
        return {"inlineData": {"mimeType": piece.mime_type, "data": piece.data}}
    return {"text": as_text(piece)}
