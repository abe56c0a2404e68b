"""Tools and contents in the format of OpenAI's Chat Completions, which many other vendors and local servers speak too.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carrel.vendors.declaration import Declaration, description_of
from carrel.vendors.openai_responses import IMAGES, PROPERTY
from carrel.vendors.pieces import MediaContent, Piece, TextPiece, as_text, error_text, joined, pieces, pieces_of_result
from carrel.vendors.responses import ModelCall, decoded_arguments, member
from carrel.vendors.schemas import inlined, object_schema, renamed
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ResourceContents
from carrel.wire.tools import Tool

__all__ = ["calls", "content", "declare", "tool_list", "tool_results"]

AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def declare(tool: Tool, *, description_limit: int | None = None) -> Declaration:
    """Return a tool for ``tools``, not strict. Its name has to be valid already.

    References are inlined: many servers that speak this format do not follow them.
    """
    schema, originals = renamed(object_schema(inlined(tool.input_schema)), PROPERTY)
    function: dict[str, Any] = {"name": tool.name, "parameters": schema, "strict": False}
    if text := description_of(tool, description_limit):
        function["description"] = text
    return Declaration({"type": "function", "function": function}, originals)


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the tool calls in a completion, or in a message."""
    choices = member(response, "choices")
    message = member(choices[0], "message") if choices else response
    functions = [(call, member(call, "function")) for call in member(message, "tool_calls") or []]
    return [
        ModelCall(
            str(member(call, "id")),
            str(member(function, "name")),
            decoded_arguments(member(function, "arguments") or {}),
        )
        for call, function in functions
        if function is not None
    ]


def content(blocks: Iterable[ContentBlock | ResourceContents]) -> list[dict[str, Any]]:
    """Return content blocks, or contents of a resource, as parts of a message of the user. PDF is a file.

    Images and audio of other formats are replaced by a line that describes them.
    """
    return [_part(piece) for piece in pieces(blocks)]


def tool_results(results: Sequence[ToolResultContent], names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the messages with the results of the tools that one message called.

    Messages of tools have only text, and follow each other. Images, audio and files come after them, in one message of
    the user.
    """
    messages: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        texts: list[Piece] = []
        media: list[dict[str, Any]] = []
        for piece in pieces_of_result(result):
            part = _part(piece)
            if part["type"] == "text":
                texts.append(piece)
            else:
                media.append(part)
        if media:
            texts.append(TextPiece(f"(see the next message for {len(media)} attachments of this result)"))
            shown += [{"type": "text", "text": f"Attachments of the result of {result.tool_use_id}:"}, *media]
        text = error_text(joined(texts)) if result.is_error else joined(texts)
        messages.append({"role": "tool", "tool_call_id": result.tool_use_id, "content": text})
    return [*messages, {"role": "user", "content": shown}] if shown else messages


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case MediaContent(kind="image") if piece.mime_type in IMAGES:
            return {"type": "image_url", "image_url": {"url": piece.data_uri}}
        case MediaContent(kind="audio") if piece.mime_type in AUDIO:
            return {"type": "input_audio", "input_audio": {"data": piece.base64, "format": AUDIO[piece.mime_type]}}
        case MediaContent(kind="pdf"):
            return {"type": "file", "file": {"filename": piece.file_name, "file_data": piece.data_uri}}
    return {"type": "text", "text": as_text(piece)}
