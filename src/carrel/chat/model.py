"""Interface to a language model: a conversation goes in, text and tool uses come out as a stream.

Conversations have the format of sampling: messages of text, images, audio, tool uses and tool results. So one adapter
per vendor serves the chat and the sampling requests of servers.
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from carrel.wire.client_features import SampledContent, SamplingMessage, ToolChoice
from carrel.wire.tools import Tool

__all__ = ["Model", "ModelAnswer", "ModelEvent", "ModelRequest", "TextDelta", "ThinkingDelta", "Usage"]


class ModelRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Request for the next message of the model. Tool names are as the model sees them."""

    messages: Sequence[SamplingMessage]
    system_prompt: str | None = None
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice | None = None
    max_tokens: int = 8192
    temperature: float | None = None
    stop_sequences: Sequence[str] = ()


class Usage(msgspec.Struct, kw_only=True, frozen=True):
    """Tokens of one request, as the vendor counts them.

    ``cached_tokens`` were read from the vendor's prompt cache. ``written_tokens`` were written to it, if the vendor
    prices writes separately. ``input_tokens`` includes both; ``output_tokens`` includes reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0


class TextDelta(msgspec.Struct, frozen=True):
    """Piece of the text of the answer."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """Piece of the model's reasoning, where the vendor shows it. It is not part of the answer."""

    text: str


class ModelAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """Complete answer, the last event of a stream.

    ``stop_reason`` has the values of sampling ("endTurn", "toolUse", "maxTokens", "stopSequence"), or is "refusal" if
    the model or a filter of the vendor declined; the text then says so. The ``meta`` of a block holds vendor data that
    the next request must send back: keep it with the conversation. ``carrel.chat.argument_error`` returns the tool
    result for a tool use whose arguments cannot be parsed.

    ``model`` is the name of the model that answered, as the vendor says.
    """

    content: Sequence[SampledContent]
    stop_reason: str
    model: str
    usage: Usage


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | ModelAnswer


class Model(Protocol):
    """Language model of one vendor."""

    @property
    def name(self) -> str:
        """The model's name as ``--model`` takes it: ``VENDOR:MODEL``."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next message: events as they arrive, a ``ModelAnswer`` last.

        Cancelling the task, or closing the iterator (``contextlib.aclosing``), closes the connection at once.

        Raises:
            ConfigError: the key is missing or rejected, or there is no such model.
            TransportError: the vendor cannot be reached, is overloaded, or answers with an error.
        """

    async def close(self) -> None:
        """Close connections."""
