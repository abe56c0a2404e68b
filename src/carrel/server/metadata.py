"""Icons and annotations as users write them, validated and converted to wire types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from carrel.errors import ConfigError
from carrel.wire.base import TAGS, Annotations, Icon

__all__ = ["annotations_of", "cache_hint_of", "details_of", "icons_of", "read_struct", "tags_of", "visibility_of"]

S = TypeVar("S", bound=msgspec.Struct)


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
        ConfigError: a tag is not valid.
    """
    return {"tags": tags_of(options.get("tags", ())), "when": options.get("when")}


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
