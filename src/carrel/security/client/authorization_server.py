"""Authorization server metadata: discovery of endpoints and capabilities (RFC 8414, OpenID Connect Discovery).

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery
https://www.rfc-editor.org/rfc/rfc8414, https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import AuthorizationError
from carrel.protocol.json_values import without_nulls
from carrel.security.client.protected_resource import check_discovered_url
from carrel.security.discovery import discover
from carrel.security.fetch import Fetcher
from carrel.security.server.bearer import Unverifiable

__all__ = ["AuthorizationServer", "check_pkce", "find_server", "find_server_of_old"]

#: Endpoint paths of a server without metadata.
#: https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
DEFAULTS = {
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/token",
    "registration_endpoint": "/register",
}


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """Authorization server metadata, with the field names of RFC 8414; None where a field is absent."""

    issuer: str
    token_endpoint: str | None = None
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    undescribed: bool = False
    """Whether the server has no metadata, so its endpoints are the defaults of the specification."""

    def endpoint(self, name: str) -> str:
        """Return the URL of a required endpoint.

        Raises:
            AuthorizationError: the metadata does not have it.
        """
        url: str | None = getattr(self, name)
        if url is None:
            raise AuthorizationError(f"{self.issuer} has no {name} in its metadata")
        return url


async def find_server(
    issuer: str, fetcher: Fetcher, headers: Mapping[str, str] = MappingProxyType({})
) -> AuthorizationServer:
    """Return the validated metadata of an issuer.

    Raises:
        AuthorizationError: the metadata is missing, belongs to another issuer, or names a URL that must not be
            requested.
    """
    try:
        return _read(await discover(issuer, fetcher, headers), issuer, fetcher.hosts)
    except Unverifiable as error:
        raise AuthorizationError(f"The authorization server cannot be used: {error}") from None


async def find_server_of_old(
    url: str, fetcher: Fetcher, headers: Mapping[str, str] = MappingProxyType({})
) -> AuthorizationServer:
    """Return the metadata of an MCP server that is its own authorization server, as in revision 2025-03-26.

    https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery

    Raises:
        AuthorizationError: the metadata cannot be fetched, or belongs to another issuer.
    """
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    metadata_url = f"{origin}/.well-known/oauth-authorization-server"
    try:
        answer = await fetcher.ask("GET", metadata_url, headers=headers)
        if 400 <= answer.status < 500:
            endpoints = {name: f"{origin}{path}" for name, path in DEFAULTS.items()}
            return msgspec.convert({"issuer": origin, "undescribed": True, **endpoints}, AuthorizationServer)
        if answer.status != 200:
            raise Unverifiable(f"{metadata_url} answered {answer.status}")
        document = answer.read()
    except Unverifiable as error:
        raise AuthorizationError(f"The authorization server of {url} cannot be discovered: {error}") from None
    issuer = document.get("issuer")
    if not isinstance(issuer, str) or issuer not in (origin, f"{origin}/"):  # either form may be the issuer
        raise AuthorizationError(f"{metadata_url} is about the issuer {str(issuer)[:200]!r}, and not about {origin}")
    return _read(document, issuer, fetcher.hosts)


def _read(document: Mapping[str, Any], issuer: str, hosts: Collection[str]) -> AuthorizationServer:
    try:
        found = msgspec.convert(without_nulls(document), AuthorizationServer)
    except msgspec.ValidationError as error:
        raise AuthorizationError(f"The metadata of {issuer} is not valid: {error}") from None
    for name in (*DEFAULTS, "revocation_endpoint"):
        url = getattr(found, name)
        if url is not None:
            check_discovered_url(url, name, found_at=issuer, hosts=hosts)
    return msgspec.structs.replace(found, undescribed=False)


def check_pkce(server: AuthorizationServer, *, advertised: bool) -> None:
    """Check that a server supports PKCE with S256; ``advertised``: its metadata must advertise PKCE.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#authorization-code-protection

    Raises:
        AuthorizationError: the server does not support PKCE.
    """
    methods = server.code_challenge_methods_supported
    if methods is None and advertised and not server.undescribed:
        raise AuthorizationError(
            f"{server.issuer} does not say that it supports PKCE (code_challenge_methods_supported), so it is not "
            "used. If it does support PKCE, pass assume_pkce=True"
        )
    if methods is not None and "S256" not in methods:
        raise AuthorizationError(f"{server.issuer} does not support PKCE with S256, so it is not used")
