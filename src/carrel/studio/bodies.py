"""Bodies of requests of the page, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from carrel.studio.api import Key

__all__ = [
    "AppRequest",
    "CompleteRequest",
    "ContextRequest",
    "InterestRequest",
    "LinkRequest",
    "OperationRequest",
    "QuestionAnswer",
    "SamplingEdit",
    "TaskRequest",
]


class Body(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Base class of the bodies of requests."""


class LinkRequest(Body, frozen=True, kw_only=True):
    """Resource, or part of it, to link to."""

    server: str
    uri: str
    part: str | None = None


class InterestRequest(Body, frozen=True, kw_only=True):
    """Resources that are on the screen or in the context."""

    keys: list[Key]


class CompleteRequest(Body, frozen=True, kw_only=True):
    """Argument of a template or prompt to complete. ``context`` has the values of the other arguments."""

    server: str
    argument: str
    template: str | None = None
    prompt: str | None = None
    value: str = ""
    context: dict[str, str] = {}


class AppRequest(Body, frozen=True, kw_only=True):
    """Tool whose app is shown."""

    server: str
    name: str


class OperationRequest(Body, frozen=True, kw_only=True):
    """Tool to call, prompt to get or resource to read."""

    kind: Literal["call", "get", "read"]
    server: str
    name: str | None = None
    uri: str | None = None
    arguments: dict[str, Any] = {}


class TaskRequest(Body, frozen=True, kw_only=True):
    """Tool to call as a task."""

    server: str
    name: str
    arguments: dict[str, Any] = {}


class SamplingEdit(Body, frozen=True, kw_only=True):
    """Sampling request as the user has edited it: the texts of all messages, or the text of the answer."""

    texts: list[str] = []
    system_prompt: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 1
    answer: str | None = None


class QuestionAnswer(Body, frozen=True, kw_only=True):
    """Answer of the user to a question. ``content`` is for forms, ``sampling`` for sampling; None: unchanged."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    sampling: SamplingEdit | None = None


class ContextRequest(Body, frozen=True, kw_only=True):
    """Question for a context. ``ask_model``: the current model helps to choose. ``open``: resources on the page."""

    question: str = ""
    ask_model: bool = False
    budget: int = 8000
    pin: list[str] = []
    open: list[str] = []
    without: list[str] = []
    format: Literal["markdown", "xml"] = "markdown"
