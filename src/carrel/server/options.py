"""Options of the decorators of a server, by keyword."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from carrel.catalog.request import TaskSupport
from carrel.errors import ConfigError
from carrel.server.metadata import Meta
from carrel.wire.base import Annotations, Icon
from carrel.wire.tools import ToolAnnotations

__all__ = [
    *("PromptOptions", "ResourceOptions", "SkillsFolderOptions", "ToolOptions"),
    *("UnknownArguments", "When", "ignores_unknown"),
]

Icons: TypeAlias = Iterable[Icon | dict[str, Any] | str]
UnknownArguments: TypeAlias = Literal["reject", "ignore"]
When: TypeAlias = Callable[[Any], bool | Awaitable[bool]]
"""Function of the ``Context`` of a request: whether something exists for its caller."""


class ItemOptions(TypedDict, total=False):
    """Options of tools, prompts, resources and templates.

    ``tags`` are listed in ``_meta``, and name items to ``disable``. Callers for whom ``when``, a function of their
    ``Context``, returns False have no such item.
    """

    title: str | None
    description: str | None
    icons: Icons | None
    meta: Meta | None
    tags: Iterable[str]
    when: When | None


class ResourceOptions(ItemOptions, total=False):
    """Options of ``Server.resource`` and ``Server.resources.add``.

    ``size`` is in bytes, ``ttl`` in seconds; ``scope`` is "public" or "private"; ``annotations`` are audience, priority
    (0 to 1) and last_modified (ISO 8601).
    """

    name: str | None
    mime_type: str | None
    size: int | None
    annotations: Annotations | dict[str, Any] | None
    ttl: float | None
    scope: str | None


class PromptOptions(ItemOptions, total=False):
    """Options of ``Server.prompt`` and ``Server.prompts.add``."""


class ToolOptions(ItemOptions, total=False):
    """Options of ``Server.tool`` and ``Server.tools.add``, which explains them."""

    annotations: ToolAnnotations | dict[str, Any] | None
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    structured: bool | None
    mask_errors: bool | None
    strict: bool | None
    unknown_arguments: UnknownArguments | None
    task: TaskSupport
    detaches: bool
    ui: str | None
    visibility: Iterable[str] | None


class SkillsFolderOptions(TypedDict, total=False):
    """Options of ``Server.skills``: what of the folders is shared."""

    exclude: Sequence[str]
    hidden: bool
    follow_symlinks: bool
    gitignore: bool


def ignores_unknown(value: UnknownArguments) -> bool:
    """Return whether arguments of unknown names are left out, by the option ``unknown_arguments``.

    Raises:
        ConfigError: it is neither "reject" nor "ignore".
    """
    if value not in get_args(UnknownArguments):
        raise ConfigError(f"unknown_arguments must be 'reject' or 'ignore', not {value!r}")
    return value == "ignore"
