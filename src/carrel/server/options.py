"""Options that authors pass to a server and its decorators, their checks, and their values as wire types."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, get_args

import msgspec

from carrel.catalog.request import TaskSupport
from carrel.errors import ConfigError
from carrel.wire.base import TAGS, Annotations, Icon, Meta
from carrel.wire.tools import ToolAnnotations

if TYPE_CHECKING:
    from carrel.state.interfaces import State

__all__ = [
    *("PromptOptions", "ResourceOptions", "ServerSettings", "SkillsFolderOptions", "ToolOptions"),
    *("UnknownArguments", "When", "annotations_of", "cache_hint_of", "check_options", "details_of"),
    *("icons_of", "ignores_unknown", "name_of", "read_struct", "tags_of", "visibility_of"),
]

S = TypeVar("S", bound=msgspec.Struct)
Icons: TypeAlias = Iterable[Icon | dict[str, Any] | str]
UnknownArguments: TypeAlias = Literal["reject", "ignore"]
When: TypeAlias = Callable[[Any], bool | Awaitable[bool]]
"""Function of the ``Context`` of a request: whether something exists for its caller."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server, with the meaning that the options of ``Server`` have.

    Raises:
        ConfigError: a setting is not valid.
    """

    page_size: int
    subscribe: bool
    list_changed: bool
    state_keys: tuple[bytes, ...]
    state_ttl: float
    mask_errors: bool
    strict: bool
    unknown_arguments: UnknownArguments
    state: State | str | None

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
    """Options of ``Server.skills``: which files of the folders are shared."""

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


#: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def name_of(kind: str, function: object, name: str | None) -> str:
    """Return the name under which a function is registered as a "tool" or a "prompt": its own if none is given.

    Raises:
        ConfigError: it is no function, or the name is not valid.
    """
    if not callable(function):
        raise ConfigError(f"A {kind} is a function, not {function!r:.80} ({type(function).__name__})")
    own = str(getattr(function, "__name__", type(function).__name__))
    if name is None and own == "<lambda>":
        raise ConfigError(f"A lambda has no name; give the {kind} one with name=")
    found = own if name is None else name
    if kind == "tool" and (not isinstance(found, str) or NAME.fullmatch(found) is None):
        raise ConfigError(
            f"{found!r:.160} is not the name of a tool: it has 1 to 128 letters (A-Z, a-z), digits, and any of _ - . /"
        )
    if not isinstance(found, str) or not found or not found.isprintable():
        raise ConfigError(f"{found!r:.160} is not the name of a {kind}: it has to be printable text")
    return found


def check_options(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check the names of options by keyword. ``where`` takes them, such as "@app.tool".

    Raises:
        ConfigError: one is not known; the message has the nearest name.
    """
    for name in given:
        if name not in known:
            from carrel.near_names import did_you_mean

            names = sorted(known)
            hint = did_you_mean(name, names)
            raise ConfigError(f"{where} has no option {name!r}{hint or '; the options are ' + ', '.join(names)}")


def tags_of(value: Iterable[str]) -> frozenset[str]:
    """Return validated tags.

    Raises:
        ConfigError: the value is a single string, or a tag is not a string.
    """
    if isinstance(value, str):
        raise ConfigError(f"tags are a set of texts: write tags={{{value!r}}}")
    tags = frozenset(value)
    if not all(isinstance(tag, str) and tag for tag in tags):
        raise ConfigError(f"tags are a set of texts, not {value!r}")
    return tags


def details_of(options: Mapping[str, Any], documentation: str | None = None) -> dict[str, Any]:
    """Return the fields of an item that tools, prompts, resources and templates have in common, from options.

    ``documentation`` is the description unless the options have one. Tags are put in ``_meta``.

    Raises:
        ConfigError: an icon or a tag is not valid.
    """
    meta, tags = options.get("meta"), tags_of(options.get("tags", ()))
    return {
        "title": options.get("title"),
        "description": options.get("description") or documentation,
        "icons": icons_of(options.get("icons")),
        "meta": {**(meta or {}), TAGS: sorted(tags)} if tags else meta,
    }


def visibility_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags and ``when`` of an item, from options.

    Raises:
        ConfigError: a tag is not valid, or ``when`` is not a function.
    """
    when = options.get("when")
    if when is not None and not callable(when):
        raise ConfigError(f"when is a function of the context, not {when!r}: write when=lambda context: …")
    return {"tags": tags_of(options.get("tags", ())), "when": when}


def cache_hint_of(ttl: float | None, scope: str | None) -> tuple[int | None, Any]:
    """Return the cache hints ``ttlMs`` and ``cacheScope`` for a lifetime in seconds and a scope.

    Raises:
        ConfigError: the lifetime is negative, or there is no such scope.
    """
    if ttl is not None and ttl < 0:
        raise ConfigError(f"ttl must be 0 or more seconds, not {ttl}")
    if scope not in (None, "public", "private"):
        raise ConfigError(f"scope must be 'public' or 'private', not {scope!r}")
    return None if ttl is None else round(ttl * 1000), scope


def read_struct(value: S | dict[str, Any], kind: type[S], what: str) -> S:
    """Return a struct, given as one or as a dict with its fields as they are named on the wire or in Python.

    Raises:
        ConfigError: a field is not known or of a wrong type.
    """
    if isinstance(value, kind):
        try:
            msgspec.convert(msgspec.to_builtins(value), kind)
        except (msgspec.ValidationError, TypeError) as error:
            raise ConfigError(f"{what}: {error}") from None
        return value
    if not isinstance(value, dict):
        raise ConfigError(f"{what} must be {kind.__name__} or a dict, not {type(value).__name__}")
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    unknown = [key for key in value if key not in names and key not in names.values()]
    if unknown:
        raise ConfigError(f"{what}: unknown {', '.join(unknown)}; known are {', '.join(names.values())}")
    try:
        return msgspec.convert({names.get(key, key): item for key, item in value.items()}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}") from None


def annotations_of(value: Annotations | dict[str, Any] | None) -> Annotations | None:
    """Return validated annotations as a wire type.

    Raises:
        ConfigError: a field is not known or of a wrong type, the priority is not between 0 and 1, or the time is not
            ISO 8601.
    """
    if value is None:
        return None
    annotations = read_struct(value, Annotations, "annotations")
    if annotations.priority is not None and not 0 <= annotations.priority <= 1:
        raise ConfigError(f"annotations: priority must be between 0 and 1, not {annotations.priority}")
    if annotations.last_modified is not None:
        from datetime import datetime  # few resources say it, and msgspec has loaded it anyway

        try:
            datetime.fromisoformat(annotations.last_modified)
        except ValueError:
            raise ConfigError(
                f"annotations: lastModified must be ISO 8601, not {annotations.last_modified!r}"
            ) from None
    return annotations if annotations != Annotations() else None


def icons_of(value: Iterable[Icon | dict[str, Any] | str] | None) -> list[Icon] | None:
    """Return validated icons as wire types. A string is the ``src`` of one.

    Raises:
        ConfigError: an icon is neither https: nor data:.
    """
    if value is None:
        return None
    icons = [Icon(icon) if isinstance(icon, str) else read_struct(icon, Icon, "icon") for icon in value]
    for icon in icons:
        if not icon.src.startswith(("https://", "http://", "data:")):
            raise ConfigError(f"icon: {icon.src[:100]!r} must be an https: or data: URI")
    return icons or None
