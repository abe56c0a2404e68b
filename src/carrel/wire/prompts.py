"""Prompts, their arguments and messages.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType, field

from carrel.wire.base import Icon, Meta, PageResult, Params, Result, Role, Wire
from carrel.wire.content import ContentBlock


class PromptArgument(Wire):
    """One argument of a prompt; all of them are strings on the wire."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Wire, kw_only=True):
    """A prompt in a list."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class PromptMessage(Wire):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


class ListPromptsResult(PageResult, kw_only=True):
    prompts: list[Prompt]


class GetPromptParams(Params, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class GetPromptResult(Result, kw_only=True):
    """Result of prompts/get: the messages of a prompt, with its arguments filled in."""

    description: str | None = None
    messages: list[PromptMessage]
