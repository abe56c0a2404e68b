"""Conversion of conversations that all vendors share: ids of tool uses, and vendor data to send back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from carrel.vendors.pieces import joined, pieces
from carrel.wire.client_features import SampledContent, SamplingContent, ToolResultContent, ToolUseContent
from carrel.wire.content import AudioContent, ContentBlock, ImageContent, TextContent

__all__ = ["only_content", "only_results", "only_uses", "text_of_blocks", "valid_id", "vendor_data", "with_vendor_data"]

#: Identifier of a tool use that Anthropic and OpenAI accept.
VALID_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def valid_id(id: str) -> str:
    """Return the id of a tool use as all vendors accept it; a valid one stays, another has the same one each time."""
    return id if VALID_ID.fullmatch(id) else f"call_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def only_results(blocks: Iterable[SamplingContent]) -> list[ToolResultContent]:
    """Return the results of tools among the blocks of a message."""
    return [block for block in blocks if isinstance(block, ToolResultContent)]


def only_uses(blocks: Iterable[SamplingContent]) -> list[ToolUseContent]:
    """Return the tool uses among the blocks of a message."""
    return [block for block in blocks if isinstance(block, ToolUseContent)]


def only_content(blocks: Iterable[SamplingContent]) -> list[ContentBlock]:
    """Return the text, images and audio among the blocks of a message."""
    return [block for block in blocks if isinstance(block, TextContent | ImageContent | AudioContent)]


def text_of_blocks(blocks: Sequence[SamplingContent]) -> str:
    """Return a model's message as text, for vendors that accept no media from models."""
    return joined(pieces(only_content(blocks)))


def vendor_data(block: SamplingContent, vendor: str, model: str) -> dict[str, Any]:
    """Return the vendor data that the model gave with a block; empty for other models."""
    found = (block.meta or {}).get(f"carrel/{vendor}")
    return found if isinstance(found, dict) and found.get("model") == model else {}


def with_vendor_data(block: SampledContent, vendor: str, model: str, members: dict[str, Any]) -> SampledContent:
    """Return a block with the vendor data to send back."""
    if members:
        block.meta = {**(block.meta or {}), f"carrel/{vendor}": {"model": model, **members}}
    return block
