"""Options of the decorators of a server, by keyword."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from carrel.catalog.request import TaskSupport
from carrel.errors import ConfigError
from carrel.wire.base import Annotations, Icon, Meta
from carrel.wire.tools import ToolAnnotations

if TYPE_CHECKING:
    from carrel.state.interfaces import State

__all__ = [
    *("PromptOptions", "ResourceOptions", "ServerSettings", "SkillsFolderOptions", "ToolOptions"),
    *("UnknownArguments", "When", "ignores_unknown"),
]

Icons: TypeAlias = Iterable[Icon | dict[str, Any] | str]
UnknownArguments: TypeAlias = Literal["reject", "ignore"]
When: TypeAlias = Callable[[Any], bool | Awaitable[bool]]
"""Function of the ``Context`` of a request: whether something exists for its caller."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server, with the meaning that the options of ``Server`` have.

    Raises:
        ConfigError: a setting makes no sense.
    """

    page_size: int
    subscribe: bool
    list_changed: bool
    state_keys: tuple[bytes, ...]
    state_ttl: float
    mask_errors: bool
    strict: bool
    unknown_arguments: UnknownArguments
    state: State | None

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise ConfigError(f"page_size must be at least 1, not {self.page_size}")
        if any(len(key) != 32 for key in self.state_keys):
            raise ConfigError("A key of request states has 32 bytes")
        if self.state_ttl <= 0:
            raise ConfigError(f"state_ttl must be more than 0 seconds, not {self.state_ttl}")
        ignores_unknown(self.unknown_arguments)


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
