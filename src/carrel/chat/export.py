"""Export of conversations as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from carrel.chat.compaction import ATTACHED
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent, blocks_of
from carrel.wire.content import TextContent

__all__ = ["as_markdown"]

WHO = {"user": "You", "assistant": "Model"}


def as_markdown(messages: Iterable[SamplingMessage], title: str) -> str:
    """Return a conversation as Markdown; of attachments and media, only the place and the size."""
    parts = [f"# {title}"]
    for message in messages:
        blocks = blocks_of(message)
        if not any(isinstance(block, ToolResultContent) for block in blocks):
            parts.append(f"## {WHO[message.role]}")
        parts += [_block(block) for block in blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: object) -> str:
    attached = (getattr(block, "meta", None) or {}).get(ATTACHED)
    if isinstance(attached, list):
        return f"*Attached: {':'.join(str(part) for part in attached if part)}*"
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ToolUseContent):
        return f"*Calls {block.name}:*\n\n{fenced(msgspec.json.format(msgspec.json.encode(block.input)).decode())}"
    if isinstance(block, ToolResultContent):
        text = "\n".join(part.text if isinstance(part, TextContent) else _block(part) for part in block.content)
        return f"*{'Error' if block.is_error else 'Result'}:*\n\n{fenced(text)}"
    kind, data = getattr(block, "mime_type", "content"), getattr(block, "data", b"")
    return f"*{kind}, {len(data):,} bytes*"


def fenced(text: str) -> str:
    """Return a text as a code block whose fence is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
