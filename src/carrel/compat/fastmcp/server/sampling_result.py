"""Messages of sampling: what programs give and get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from carrel.compat.mcp.types import ModelHint, ModelPreferences, SamplingMessage, TextContent, ToolUseContent

__all__ = ["SampleStep", "SamplingResult", "messages_of", "preferences_of"]

T = TypeVar("T")


@dataclass
class SamplingResult(Generic[T]):
    """Message of the client's model: its text, its content, and the messages up to it."""

    text: str | None
    result: T
    history: list[SamplingMessage]


@dataclass
class SampleStep:
    """One message of the model, and the messages up to it. The results of the tools that it calls may follow."""

    response: Any
    history: list[SamplingMessage]

    @property
    def is_tool_use(self) -> bool:
        """Whether the model calls tools."""
        return bool(self.tool_calls) and self.response.stopReason == "toolUse"

    @property
    def text(self) -> str | None:
        """The first text of the message; None without one."""
        return next((each.text for each in self._blocks if isinstance(each, TextContent)), None)

    @property
    def tool_calls(self) -> list[ToolUseContent]:
        """The calls of tools in the message."""
        return [each for each in self._blocks if isinstance(each, ToolUseContent)]

    @property
    def _blocks(self) -> list[Any]:
        content = self.response.content
        return content if isinstance(content, list) else [content]


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
