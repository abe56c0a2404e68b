"""Completion of prompt arguments and template variables.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from carrel.wire.base import Params, Result, Wire


class PromptReference(Wire, tag_field="type", tag="ref/prompt"):
    name: str
    title: str | None = None


class ResourceTemplateReference(Wire, tag_field="type", tag="ref/resource"):
    uri: str


class CompletionArgument(Wire):
    """The argument to complete: its name and the value typed so far."""

    name: str
    value: str


class CompletionContext(Wire, kw_only=True):
    """The arguments that already have a value."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params, kw_only=True):
    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Wire):
    """Completion suggestions, best first; at most 100 are sent. ``total`` is their total number, if known."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, kw_only=True):
    completion: Completion
