"""Protected resource metadata (RFC 9728) for clients: discovery of the resource identifier and its issuers.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery
https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from carrel.errors import AuthorizationError, ConfigError
from carrel.protocol.json_values import without_nulls
from carrel.security.fetch import Fetcher, check_url
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.metadata import WELL_KNOWN, canonical

__all__ = ["ProtectedResource", "check_discovered_url", "find_resource", "identifies", "origin_of"]


class ProtectedResource(msgspec.Struct, frozen=True, kw_only=True):
    """Protected resource metadata, with the field names of RFC 9728; ``url`` is the URL of the document."""

    resource: str
    url: str = ""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False


def origin_of(url: str) -> str:
    """Return the origin of a URL (scheme, host and port) in normal form."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme.lower(), 0)
    return f"{parts.scheme.lower()}://{f'[{host}]' if ':' in host else host}:{port}"


def identifies(resource: str, url: str) -> bool:
    """Return whether a resource identifier is valid for the server at ``url``: its URL, or a parent path of it.

    https://www.rfc-editor.org/rfc/rfc9728#section-3.3
    """
    try:
        given, asked = urlsplit(canonical(resource)), urlsplit(canonical(url))
        same = origin_of(resource) == origin_of(url)
    except ValueError:
        return False
    if not same or given.fragment or (given.query and given.query != asked.query):
        return False
    above, path = given.path.rstrip("/"), asked.path
    if ".." in unquote(above).split("/"):
        return False
    return path == above or path.startswith(f"{above}/")


def locations(url: str) -> list[str]:
    """Return the well-known metadata URLs of a server, in the order in which to try them."""
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    root = f"{origin}{WELL_KNOWN}"
    return [f"{root}{path}", root] if path else [root]


def check_discovered_url(url: str, what: str, *, found_at: str, hosts: Collection[str]) -> str:
    """Return a URL from metadata if it may be requested. ``hosts`` may be outside the public Internet.

    Raises:
        AuthorizationError: the URL must not be requested.
    """
    try:
        host = urlsplit(url).hostname or ""
        return check_url(url, what, found_at=None if host in hosts else found_at)
    except ValueError:
        raise AuthorizationError(f"{found_at} names {url[:200]!r} as its {what}, which is not a URL") from None
    except ConfigError as error:
        hint = f"; if it is meant to be, say hosts=[{host!r}]" if "in here" in str(error) else ""
        raise AuthorizationError(f"{found_at} cannot be followed: {error}{hint}") from None


async def find_resource(
    url: str, named: str | None, fetcher: Fetcher, headers: Mapping[str, str]
) -> ProtectedResource | None:
    """Return the protected resource metadata of the server at ``url``, or None.

    ``named`` is the metadata URL that the server's challenge names.

    Raises:
        AuthorizationError: the metadata cannot be fetched, or belongs to another server.
    """
    hosts = fetcher.hosts
    urls = [] if named is None else [check_discovered_url(named, "resource_metadata", found_at=url, hosts=hosts)]
    for metadata_url in [*urls, *(one for one in locations(url) if one not in urls)]:
        try:
            answer = await fetcher.ask("GET", metadata_url, headers=headers)
            if 400 <= answer.status < 500:
                continue  # also 401 and 403, as some servers protect every path
            if answer.status != 200:
                raise Unverifiable(f"{metadata_url} answered {answer.status}")
            document = answer.read()
        except Unverifiable as error:
            raise AuthorizationError(f"The authorization server of {url} cannot be discovered: {error}") from None
        found = _read(document, metadata_url)
        if not identifies(found.resource, url):
            raise AuthorizationError(
                f"{metadata_url} is about {found.resource[:200]!r}, and not about {url}: no token is requested"
            )
        return found
    return None


def _read(document: Mapping[str, Any], metadata_url: str) -> ProtectedResource:
    try:
        return msgspec.convert({**without_nulls(document), "url": metadata_url}, ProtectedResource)
    except msgspec.ValidationError as error:
        raise AuthorizationError(f"The metadata at {metadata_url} is not valid: {error}") from None
