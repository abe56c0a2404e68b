"""Completion of prompt arguments and template variables.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from carrel.wire.base import Params, Result, Wire


class PromptReference(Wire, tag_field="type", tag="ref/prompt"):
    name: str
    title: str | UnsetType = UNSET


class ResourceTemplateReference(Wire, tag_field="type", tag="ref/resource"):
    uri: str


class CompletionArgument(Wire):
    """The argument to complete: its name and the value typed so far."""

    name: str
    value: str


class CompletionContext(Wire, kw_only=True):
    """The arguments that already have a value."""

    arguments: dict[str, str] | UnsetType = UNSET


class CompleteParams(Params, kw_only=True):
    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | UnsetType = UNSET


class Completion(Wire):
    """Completion suggestions, best first; at most 100 are sent. ``total`` is their total number, if known."""

    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET


class CompleteResult(Result, kw_only=True):
    completion: Completion
