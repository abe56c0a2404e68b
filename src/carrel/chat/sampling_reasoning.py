"""Reasoning: what vendors want back with answers to sampling, kept away from the servers that get the answers.

A server that uses tools sends an answer back with their results, and the vendor demands its signed reasoning with it.
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from carrel.wire.client_features import SampledContent, SamplingContent, SamplingMessage, ToolUseContent, blocks_of

__all__ = ["Reasoning"]

#: Beginning of the keys in ``_meta`` that are of Carrel and of the vendors.
OWN = "carrel/"
#: Answers whose reasoning is kept; the oldest are dropped first.
MOST_ANSWERS = 256


class Reasoning:
    """Reasoning of answers that use tools, by the ids of the uses. Other answers need none when they come back."""

    def __init__(self, most_answers: int = MOST_ANSWERS) -> None:
        self._most = most_answers
        self._answers: OrderedDict[tuple[str, ...], Sequence[SampledContent]] = OrderedDict()

    def take(self, content: Sequence[SampledContent]) -> list[SampledContent]:
        """Return the content of an answer as the server gets it, and keep the reasoning."""
        ids = ids_of(content)
        if ids and any(own(block) for block in content):
            self._answers[ids] = content
            self._answers.move_to_end(ids)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return [stripped(block) for block in content]

    def give_back(self, message: SamplingMessage) -> SamplingMessage:
        """Restore the reasoning of a message's blocks. The reasoning of a missing block goes to the first tool use.

        Reasoning that the server itself adds is dropped.
        """
        blocks: list[Any] = [stripped(block) for block in blocks_of(message)]
        known = self._answers.get(ids_of(blocks)) if message.role == "assistant" else None
        for block in known or ():
            if meta := own(block):
                plain = stripped(block)
                at = next((at for at, one in enumerate(blocks) if same(one, plain) and not own(one)), None)
                if at is None:
                    at = next((at for at, one in enumerate(blocks) if isinstance(one, ToolUseContent)), 0)
                if not own(blocks[at]):
                    blocks[at] = msgspec.structs.replace(blocks[at], meta={**(blocks[at].meta or {}), **meta})
        return SamplingMessage(role=message.role, content=blocks)


def ids_of(blocks: Iterable[SamplingContent]) -> tuple[str, ...]:
    return tuple(block.id for block in blocks if isinstance(block, ToolUseContent))


def own(block: SamplingContent) -> dict[str, Any]:
    """Return the keys of Carrel and the vendors in the ``_meta`` of a block."""
    return {key: value for key, value in (block.meta or {}).items() if key.startswith(OWN)}


def stripped(block: Any) -> Any:
    """Return a block without it."""
    if not own(block):
        return block
    remaining = {key: value for key, value in block.meta.items() if not key.startswith(OWN)}
    return msgspec.structs.replace(block, meta=remaining or None)


def same(one: Any, other: Any) -> bool:
    """Return whether two blocks are equal, ignoring keys that a server added to ``_meta``."""
    if type(one) is not type(other):
        return False
    return bool(msgspec.structs.replace(one, meta=None) == msgspec.structs.replace(other, meta=None))
