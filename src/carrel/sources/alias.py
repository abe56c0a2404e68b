"""Aliases: the option ``alias`` replaces the base of a source's URIs."""

from __future__ import annotations

from carrel.errors import ConfigError
from carrel.redaction import without_secrets
from carrel.sources.registry import SOURCES
from carrel.uri.parse import UriError, encode_path, normalize, parse

__all__ = ["base_of"]

#: Schemes that clients resolve without the server.
RESERVED = ("file", "http", "https")


def base_of(scheme: str, alias: str, root: str = "//") -> str:
    """Return the base of URIs that an alias stands for, without a slash at its end.

        shop                         ->  postgres://shop
        database/customers           ->  postgres://database/customers
        postgres://database/shop     ->  postgres://database/shop

    ``root`` comes between the scheme and the alias; ``///`` for files, which have no host.

    Raises:
        ConfigError: the alias has another form, or the scheme of another kind of source.
    """
    given, _, remaining = alias.partition("://") if "://" in alias else ("", "", alias)
    segments = (remaining.removeprefix("/") if given and root == "///" else remaining).split("/")
    if len(segments) > 2 or not all(segments) or any(character.isspace() for character in alias):
        raise _wrong(alias)
    if given and not _may_have(scheme, given.lower()):
        raise _wrong(alias, f": {given}: URIs belong to other resources")
    if not given:
        host, *path = segments
        text = f"{scheme}:{root}{encode_path([host if root == '///' else host.lower(), *path])}"
    else:
        text = alias
    try:
        base = normalize(text)
        uri = parse(base)
    except UriError as error:
        raise _wrong(alias, f": {error}") from None
    if uri.query is not None or uri.fragment is not None or "@" in (uri.authority or ""):
        raise _wrong(alias)
    return base


def _may_have(scheme: str, other: str) -> bool:
    """Return whether the URIs of a source may have another scheme: a new one, or one that the same class serves."""
    if other in RESERVED:
        return False
    first, second = SOURCES.get(scheme), SOURCES.get(other)
    return second is None or (first is not None and first.source == second.source)


def _wrong(alias: str, reason: str = "") -> ConfigError:
    return ConfigError(
        f"alias: {without_secrets(alias)[:100]!r} is not a base of URIs{reason}; write NAME, HOST/NAME or "
        "SCHEME://HOST/NAME, without spaces and without a slash at the end"
    )
