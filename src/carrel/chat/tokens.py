"""Sizes of conversations in tokens, estimated without the vendor's tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from carrel.protocol.encoding import encode
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent, blocks_of
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, TextContent

__all__ = ["tokens_of"]

#: Bytes of UTF-8 per token. Vendors say about 4 for English; less is on the safe side for code and other languages.
BYTES_PER_TOKEN = 3.5
#: Tokens of an image of the size that vendors scale images to.
IMAGE = 1600
#: Bytes of a PDF or of audio per token, roughly.
BINARY_PER_TOKEN = 40


def tokens_of(messages: Iterable[SamplingMessage]) -> int:
    """Return about how many tokens messages have."""
    return sum(4 + sum(map(_of_block, blocks_of(message))) for message in messages)


def _of_block(block: object) -> int:
    if isinstance(block, TextContent):
        return _of_text(block.text)
    if isinstance(block, ImageContent):
        return IMAGE if block.mime_type.startswith("image/") else len(block.data) // BINARY_PER_TOKEN
    if isinstance(block, AudioContent):
        return len(block.data) // BINARY_PER_TOKEN
    if isinstance(block, ToolUseContent):
        return _of_text(block.name) + _of_bytes(len(msgspec.json.encode(block.input)))
    if isinstance(block, ToolResultContent):
        return sum(map(_of_block, block.content))
    if isinstance(block, EmbeddedResource):
        text = getattr(block.resource, "text", None)
        return _of_text(text) if isinstance(text, str) else len(block.resource.blob) // BINARY_PER_TOKEN  # type: ignore[union-attr]
    return _of_bytes(len(encode(block)))


def _of_text(text: str) -> int:
    return _of_bytes(len(text.encode("utf-8", "replace")))


def _of_bytes(count: int) -> int:
    return int(count / BYTES_PER_TOKEN) + 1
