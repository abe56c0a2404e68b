"""Events of a running chat, for a terminal or for programs (``--json``)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from carrel.chat.model import Usage

__all__ = [
    "ChatEvent",
    "Media",
    "Notice",
    "Text",
    "Thinking",
    "ToolEnd",
    "ToolProgress",
    "ToolStart",
    "ToolUseEvent",
    "TurnEnd",
]


def snake(name: str) -> str:
    """Return a name in CamelCase as snake_case."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class BaseEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=snake, rename="camel"):
    """Base class of events; on the wire, ``type`` is the name of the class in snake_case, or its ``tag``."""


class Text(BaseEvent, frozen=True):
    """Piece of the text of the model's answer."""

    text: str


class Thinking(BaseEvent, frozen=True):
    """Piece of the model's reasoning, which is not part of the answer."""

    text: str


class Media(BaseEvent, frozen=True):
    """Image or audio of the model, or of a tool, if it was saved: ``file``; ``size`` in bytes."""

    mime_type: str
    size: int
    file: str | None = None


class ToolUseEvent(BaseEvent, frozen=True, tag="tool_use"):
    """Tool call that the model wants. It is not approved yet. ``server`` is empty for tools of the chat itself."""

    id: str
    server: str
    tool: str
    arguments: dict[str, Any]


class ToolStart(BaseEvent, frozen=True):
    """Tool call that was approved and has begun."""

    id: str


class ToolProgress(BaseEvent, frozen=True):
    """Progress of a tool call; ``total`` is None if it is not known."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolEnd(BaseEvent, frozen=True):
    """Tool call with its result, as text for a reader.

    ``outcome``: "done", "error" (the tool or the server reported one), "rejected" (by the user), "cancelled".
    ``size`` is the number of characters and bytes that the model gets, ``seconds`` how long it took.
    """

    id: str
    server: str
    tool: str
    arguments: dict[str, Any]
    outcome: Literal["done", "error", "rejected", "cancelled"]
    text: str
    size: int
    seconds: float


class Notice(BaseEvent, frozen=True):
    """Remark about the conversation, such as that something was left out of it."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


class TurnEnd(BaseEvent, frozen=True):
    """Complete answer of the model to a message, with the ``usage`` and ``cost`` (US dollars) of all its requests.

    ``stop_reason``: "endTurn", "maxTokens", "cancelled", "maxRounds" or another reason that the model gives.
    """

    text: str
    stop_reason: str
    model: str
    usage: Usage
    cost: float | None = None


ChatEvent: TypeAlias = Text | Thinking | Media | ToolUseEvent | ToolStart | ToolProgress | ToolEnd | Notice | TurnEnd
