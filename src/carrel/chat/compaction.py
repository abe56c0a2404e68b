"""Compaction of conversations that approach the context window of the model.

Dropped first are the oldest tool results, then attached resources and media, and then the oldest exchanges as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from carrel.chat.tokens import tokens_of
from carrel.wire.client_features import SamplingContent, SamplingMessage, ToolResultContent, blocks_of
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import TextResourceContents

__all__ = ["ATTACHED", "Compacted", "compact", "is_user_message"]

#: Key in ``_meta`` of blocks that hold an attached resource: its server and URI.
ATTACHED = "carrel/attached"
#: Keep results that are shorter than the placeholder.
SHORT = 200


class Compacted(NamedTuple):
    """Messages that fit, and the numbers of dropped tool results, attachments and exchanges."""

    messages: list[SamplingMessage]
    results: int
    attachments: int
    exchanges: int

    def __str__(self) -> str:
        counts = (("old tool result", self.results), ("attachment", self.attachments), ("old exchange", self.exchanges))
        return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts if count)


def compact(messages: Sequence[SamplingMessage], budget: int) -> Compacted:
    """Return messages of about ``budget`` tokens at most, if possible. Messages after the last question are kept."""
    kept = list(messages)
    last = max((at for at, message in enumerate(kept) if is_user_message(message)), default=0)
    results = _replace(kept, last, budget, lambda block: isinstance(block, ToolResultContent))
    attachments = _replace(kept, last, budget, is_attachment)
    # In a long loop, all that uses the room came after the last question: the newest results stay whole.
    results += _replace(kept, len(kept) - 2, budget, lambda block: isinstance(block, ToolResultContent))
    exchanges = 0
    while tokens_of(kept) > budget:
        following = next((at for at, message in enumerate(kept) if at and is_user_message(message)), None)
        if following is None:
            break
        del kept[:following]
        exchanges += 1
    return Compacted(kept, results, attachments, exchanges)


def is_user_message(message: SamplingMessage) -> bool:
    """Return whether a message is from the user, and not a tool result: a conversation may begin with it."""
    blocks = blocks_of(message)
    return message.role == "user" and not any(isinstance(block, ToolResultContent) for block in blocks)


def is_attachment(block: SamplingContent) -> bool:
    """Return whether a block is an attached resource, an image or audio."""
    return isinstance(block, ImageContent | AudioContent) or ATTACHED in (block.meta or {})


def _replace(kept: list[SamplingMessage], end: int, budget: int, wanted: Callable[[SamplingContent], bool]) -> int:
    """Shorten blocks before the message ``end``, the oldest first, until the messages fit; return how many were."""
    count = 0
    for at in range(max(end, 0)):
        if tokens_of(kept) <= budget:
            break
        blocks = blocks_of(kept[at])
        new = [shortened(block) if wanted(block) else block for block in blocks]
        changed = sum(one is not other for one, other in zip(blocks, new, strict=True))
        if changed:
            count += changed
            kept[at] = SamplingMessage(role=kept[at].role, content=new)
    return count


def shortened(block: SamplingContent) -> SamplingContent:
    """Return the placeholder for a dropped block; the block itself if it is short."""
    if isinstance(block, ToolResultContent):
        size = sum(map(_size, block.content))
        if size <= SHORT:
            return block
        note = TextContent(
            f"[This result of {size:,} characters was dropped to save room. Call the tool again if needed.]"
        )
        return ToolResultContent(tool_use_id=block.tool_use_id, content=[note], is_error=block.is_error)
    size = _size(block)  # type: ignore[arg-type]
    if size <= SHORT:
        return block
    about = (block.meta or {}).get(ATTACHED)
    what = " ".join(map(str, about)) if isinstance(about, list) else "attachment"
    return TextContent(f"[{what}: {size:,} characters, dropped to save room]")


def _size(block: ContentBlock) -> int:
    if isinstance(block, TextContent):
        return len(block.text)
    if isinstance(block, ImageContent | AudioContent):
        return len(block.data)
    if isinstance(block, EmbeddedResource):
        resource = block.resource
        return len(resource.text) if isinstance(resource, TextResourceContents) else len(resource.blob)
    return 0
