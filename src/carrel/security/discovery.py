"""Authorization server discovery: fetches issuer metadata (RFC 8414, OpenID Connect) and reads endpoints from it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery
https://www.rfc-editor.org/rfc/rfc8414, https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from carrel.errors import ConfigError
from carrel.security.fetch import Fetcher, check_url
from carrel.security.server.bearer import Unverifiable

__all__ = ["check_issuer", "discover", "find_endpoint", "locations"]


def check_issuer(issuer: str) -> str:
    """Return an issuer identifier after checking it.

    Raises:
        ConfigError: the issuer is not a URL, not https, or has a query.
    """
    check_url(issuer, "issuer")
    if "?" in issuer:
        raise ConfigError(f"issuer: {issuer!r} must not have a query")
    return issuer


def locations(issuer: str) -> list[str]:
    """Return the well-known metadata URLs of an issuer, in the order in which to try them."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return [*found, f"{origin}{path}/.well-known/openid-configuration"] if path else found


async def discover(issuer: str, fetcher: Fetcher, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the metadata of an issuer. ``headers`` are sent with every request.

    Raises:
        Unverifiable: the metadata is missing, or belongs to another issuer.
    """
    problems: list[str] = []
    for url in locations(issuer):
        try:
            document = await fetcher.get(url, headers)
        except Unverifiable as error:
            problems.append(str(error))
            continue
        if document.get("issuer") == issuer:
            return document
        problems.append(f"{url} is about the issuer {str(document.get('issuer'))[:200]!r}")
    raise Unverifiable(f"no metadata found for the issuer {issuer}: {'; '.join(problems)}")


async def find_endpoint(issuer: str, name: str, fetcher: Fetcher) -> str:
    """Return the endpoint URL that an issuer's metadata has under ``name``.

    Raises:
        Unverifiable: the endpoint is missing, or must not be requested.
    """
    url = (await discover(issuer, fetcher)).get(name)
    if not isinstance(url, str):
        raise Unverifiable(f"the metadata of {issuer} has no {name}")
    try:
        return check_url(url, name, found_at=issuer)
    except ConfigError as error:
        raise Unverifiable(f"the metadata of {issuer} cannot be used: {error}") from None
