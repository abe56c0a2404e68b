"""Media that a vendor refuses: a line of text replaces them, so that the conversation can continue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from carrel.errors import HTTPStatusError
from carrel.wire.client_features import SamplingContent, SamplingMessage, ToolResultContent, blocks_of
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import BlobResourceContents

__all__ = ["WithoutMedia", "may_be_media", "without_media"]

#: Statuses by which vendors refuse the content of a request.
REJECTED = (400, 413, 415, 422)
#: Servers on the same machine answer 500 to media that their model does not take.
ABOUT_MEDIA = re.compile(r"image|audio|multimodal|vision", re.IGNORECASE)
#: Longest reason of a vendor that the model reads.
REASON = 300


class WithoutMedia(NamedTuple):
    """Messages without media, and the media that they had, each as its type and size."""

    messages: list[SamplingMessage]
    left_out: list[str]


def may_be_media(error: HTTPStatusError) -> bool:
    """Return whether an error of a vendor may be about an image or audio of the request."""
    return error.status in REJECTED or (error.status == 500 and ABOUT_MEDIA.search(str(error)) is not None)


def without_media(messages: Sequence[SamplingMessage], reason: str) -> Iterator[WithoutMedia]:
    """Return what to ask instead: without the media since the last answer, which are new; then without any."""
    newest = next((at + 1 for at in reversed(range(len(messages))) if messages[at].role == "assistant"), 0)
    before = 0
    for start in (newest, 0) if newest else (0,):
        left_out: list[str] = []
        kept = [*messages[:start], *(replaced(message, reason, left_out) for message in messages[start:])]
        if len(left_out) > before:
            before = len(left_out)
            yield WithoutMedia(kept, left_out)


def replaced(message: SamplingMessage, reason: str, left_out: list[str]) -> SamplingMessage:
    """Return a message with a line of text for each of its media, which are added to ``left_out``."""
    blocks = blocks_of(message)
    new = [block_without(block, reason, left_out) for block in blocks]
    if all(one is other for one, other in zip(blocks, new, strict=True)):
        return message
    return SamplingMessage(role=message.role, content=new, meta=message.meta)


def block_without(block: SamplingContent, reason: str, left_out: list[str]) -> SamplingContent:
    if isinstance(block, ToolResultContent):
        content: list[Any] = [text_for(inner, reason, left_out) for inner in block.content]
        if all(one is other for one, other in zip(block.content, content, strict=True)):
            return block
        return ToolResultContent(tool_use_id=block.tool_use_id, content=content, is_error=block.is_error)
    return text_for(block, reason, left_out)  # type: ignore[no-any-return]


def text_for(block: Any, reason: str, left_out: list[str]) -> Any:
    """Return the text that stands for an image, a PDF or audio; any other block as it is."""
    if isinstance(block, ImageContent | AudioContent):
        kind, size = block.mime_type, len(block.data)
    elif isinstance(block, EmbeddedResource) and isinstance(block.resource, BlobResourceContents):
        kind, size = block.resource.mime_type or "binary", len(block.resource.blob)
    else:
        return block
    left_out.append(f"{kind}, {size:,} bytes")
    short = reason if len(reason) <= REASON else f"{reason[:REASON]}…"
    return TextContent(f"[{kind}, {size:,} bytes: left out, as your vendor does not take it: {short}]")
