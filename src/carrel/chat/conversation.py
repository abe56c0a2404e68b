"""Conversation: the messages of a chat, always in a state that a model can continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from carrel.chat.model import Usage
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent, blocks_of
from carrel.wire.content import TextContent

__all__ = ["CANCELLED", "Conversation", "add_usage", "balanced"]

#: Result of a tool call that did not finish.
CANCELLED = "cancelled"


class Conversation:
    """Messages of a chat. ``on_message`` is called with each message that is added, ``on_replace`` with all of them.

    Every tool use has a result in the message after it, so that no vendor rejects the conversation; see ``balanced``.
    """

    def __init__(
        self,
        messages: Iterable[SamplingMessage] = (),
        *,
        on_message: Callable[[SamplingMessage], None] | None = None,
        on_replace: Callable[[Sequence[SamplingMessage]], None] | None = None,
    ) -> None:
        self.messages = balanced(messages)
        self.usage = Usage()
        """Tokens of all requests so far."""
        self.cost: float | None = None
        """US dollars of all requests so far; None if no price is known."""
        self._on_message = on_message
        self._on_replace = on_replace

    def add(self, *messages: SamplingMessage) -> None:
        """Add messages."""
        for message in messages:
            self.messages.append(message)
            if self._on_message is not None:
                self._on_message(message)

    def replace(self, messages: Iterable[SamplingMessage]) -> None:
        """Replace all messages."""
        self.messages = balanced(messages)
        if self._on_replace is not None:
            self._on_replace(self.messages)

    def close(self) -> None:
        """Add the result "cancelled" to tool uses without a result at the end of the conversation."""
        self.add(*balanced(self.messages)[len(self.messages) :])

    def count(self, usage: Usage, cost: float | None) -> None:
        """Add the tokens and the cost of a request."""
        self.usage = add_usage(self.usage, usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages."""
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__})


def balanced(messages: Iterable[SamplingMessage]) -> list[SamplingMessage]:
    """Return messages in which each tool use has a result in the next message, and no result is without its use.

    Missing results are "cancelled", and errors. This also repairs a file that was truncated by a crash.

    https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-use-and-result-balance
    """
    found: list[SamplingMessage] = []
    wanted: list[str] = []
    for message in messages:
        blocks = blocks_of(message)
        results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResultContent)}
        if wanted:
            complete = [results.get(id) or cancelled(id) for id in wanted]
            if list(results.values()) != complete:
                blocks = [*complete, *(block for block in blocks if not isinstance(block, ToolResultContent))]
        elif results:
            blocks = [block for block in blocks if not isinstance(block, ToolResultContent)]
        wanted_now = [block.id for block in blocks if isinstance(block, ToolUseContent)]
        if wanted and len(blocks) > len(wanted):  # results are not mixed with other content
            found.append(SamplingMessage(role="user", content=list(blocks[: len(wanted)])))
            blocks = blocks[len(wanted) :]
        if blocks:
            same = blocks == blocks_of(message)
            found.append(message if same else SamplingMessage(role=message.role, content=blocks))
        wanted = wanted_now
    if wanted:
        found.append(SamplingMessage(role="user", content=[cancelled(id) for id in wanted]))
    return found


def cancelled(id: str) -> ToolResultContent:
    """Return the result of a tool use that did not finish."""
    return ToolResultContent(tool_use_id=id, content=[TextContent(CANCELLED)], is_error=True)
