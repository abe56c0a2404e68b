"""Data of the API of chats, as JSON: conversations as the page shows them, and the bodies of requests."""

from __future__ import annotations

from typing import Any, Literal

from carrel.studio.api import Key, Payload, Problem, ProgressView
from carrel.studio.bodies import Body, ContextRequest

__all__ = [
    "CallDecision",
    "CallOutcome",
    "ChatApproval",
    "ChatCall",
    "ChatChange",
    "ChatEntry",
    "ChatMessage",
    "ChatPart",
    "ChatSummaries",
    "ChatSummary",
    "ChatView",
    "ModelList",
]


class ChatApproval(Payload, frozen=True, kw_only=True):
    """Request to approve a call. ``digest`` binds the answer to the definition of the tool and to the arguments.

    ``changed``: the definition of the tool is another one than the user has approved for always.
    """

    id: str
    digest: str
    changed: bool
    description: str | None
    annotations: dict[str, Any]


class ChatCall(Payload, frozen=True, kw_only=True):
    """Tool call of the model. ``arguments`` is JSON. ``server`` is empty for tools of the chat itself.

    ``message`` is the number of the message that has the result, None while there is none. ``rich``: the result has
    other content than text.
    """

    id: str
    server: str
    tool: str
    arguments: str
    state: Literal["waiting", "asked", "running", "done", "error", "rejected", "cancelled"]
    result: str
    size: int
    progress: ProgressView | None
    approval: ChatApproval | None
    message: int | None = None
    rich: bool = False


class CallOutcome(Payload, frozen=True, kw_only=True):
    """Arguments of a call, and its whole result, as ``tools/call`` has it. The model has read the same content."""

    arguments: dict[str, Any]
    result: dict[str, Any]


class ChatPart(Payload, frozen=True, kw_only=True):
    """Part of a message.

    An attachment has the server and URI of its resource; if it is an item of a context, the number by which an answer
    cites it, and lines. ``text`` of media is the MIME type.
    """

    kind: Literal["text", "thinking", "attachment", "media", "call", "notice"]
    text: str = ""
    size: int = 0
    key: Key | None = None
    number: int | None = None
    lines: tuple[int, int] | None = None
    call: ChatCall | None = None


class ChatEntry(Payload, frozen=True, kw_only=True):
    """Message of the user, or of the model with the results of its calls."""

    role: Literal["user", "assistant"]
    parts: tuple[ChatPart, ...]


class ChatView(Payload, frozen=True, kw_only=True):
    """Conversation. ``entries`` are the entries from the number ``first`` on.

    The first ``stable`` entries stay as they are while ``revision`` is the same. ``share`` is the used part of the
    model's context window in percent, 0 if it is not known. ``retry``: the model has not answered the last message.
    """

    id: str
    title: str
    model: str
    running: bool
    revision: int
    first: int
    stable: int
    entries: tuple[ChatEntry, ...]
    tokens: int
    cost: float | None
    share: int
    retry: bool
    error: Problem | None


class ChatSummary(Payload, frozen=True, kw_only=True):
    """Conversation in the list."""

    id: str
    title: str
    model: str
    changed: str
    running: bool


class ChatSummaries(Payload, frozen=True, kw_only=True):
    """Conversations, the last changed first."""

    chats: tuple[ChatSummary, ...]


class ModelList(Payload, frozen=True, kw_only=True):
    """Names of the models that are configured. ``problems`` says which vendors have not answered, and why."""

    current: str | None
    models: tuple[str, ...]
    problems: tuple[str, ...]


# Bodies of requests


class ChatMessage(Body, frozen=True, kw_only=True):
    """Message of the user, with resources and a context. ``replace``: it takes the place of the last message.

    A message that replaces another one keeps its attachments.
    """

    text: str
    attachments: tuple[Key, ...] = ()
    context: ContextRequest | None = None
    replace: bool = False


class ChatChange(Body, frozen=True, kw_only=True):
    """Another title or another model for a conversation."""

    title: str | None = None
    model: str | None = None


class CallDecision(Body, frozen=True, kw_only=True):
    """Decision of the user about a call. The model reads the reason of a "no"."""

    decision: Literal["yes", "always", "no"]
    digest: str
    reason: str = ""
