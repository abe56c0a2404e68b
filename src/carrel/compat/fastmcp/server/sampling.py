"""Sampling: messages and preferences as programs give them, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from carrel.compat.mcp.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    ModelHint,
    ModelPreferences,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

__all__ = ["SamplingResult", "has_own_model", "messages_of", "own_answer", "preferences_of"]

T = TypeVar("T")


@dataclass
class SamplingResult(Generic[T]):
    """Message of the client's model: its text, its content, and the messages up to it."""

    text: str | None
    result: T
    history: list[SamplingMessage]

    @classmethod
    def of(cls, content: Any, history: list[SamplingMessage]) -> SamplingResult[Any]:
        """Return the result of a content block."""
        text = content.text if isinstance(content, TextContent) else None
        return SamplingResult(text, content if text is None else text, history)


def has_own_model(server: Any, session: Any) -> bool:
    """Return whether the ``sampling_handler`` of a server answers, in place of the client's model.

    Raises:
        ValueError: the ``sampling_handler_behavior`` is unknown, or "always" without a handler.
    """
    behavior, handler = server.sampling_handler_behavior, server.sampling_handler
    if behavior not in ("always", "fallback"):
        raise ValueError(f"Invalid sampling_handler_behavior: {behavior!r}. Must be 'always', 'fallback', or None.")
    if behavior == "always" and handler is None:
        raise ValueError("sampling_handler_behavior is 'always' but no handler configured")
    can_sample = ClientCapabilities(sampling=SamplingCapability())
    return handler is not None and (behavior == "always" or not session.check_client_capability(can_sample))


async def own_answer(handler: Any, messages: list[SamplingMessage], options: dict[str, Any], context: Any) -> Any:
    """Return the message of a handler, which takes messages, parameters and the context of the request."""
    from carrel.compat.fastmcp.client.sampling import sampling_callback

    params = CreateMessageRequestParams(
        messages=messages,
        maxTokens=options["max_tokens"],
        systemPrompt=options["system_prompt"],
        temperature=options["temperature"],
        modelPreferences=options["model_preferences"],
    )
    return await sampling_callback(handler)(context, params)


def messages_of(given: str | Sequence[str | SamplingMessage]) -> list[SamplingMessage]:
    """Return the messages of a text, or of texts and messages."""
    each_given = [given] if isinstance(given, str) else given
    return [
        SamplingMessage(role="user", content=TextContent(type="text", text=each)) if isinstance(each, str) else each
        for each in each_given
    ]


def preferences_of(given: Any) -> ModelPreferences | None:
    """Return the model preferences for a model name, or for several names.

    Raises:
        ValueError: the value is neither a name nor a list of names.
    """
    if given is None or isinstance(given, ModelPreferences):
        return given
    names = [given] if isinstance(given, str) else given
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return ModelPreferences(hints=[ModelHint(name=name) for name in names])
    raise ValueError("model_preferences must be one of: ModelPreferences, str, list[str], or None.")
