"""OAuth dynamic client registration (RFC 7591), and checks of Client ID Metadata Document URLs.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
https://www.rfc-editor.org/rfc/rfc7591
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import AuthorizationError, ConfigError
from carrel.redaction import RedactedStruct, Secret
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.client_authentication import ClientIdentity
from carrel.security.client.tokens import explain
from carrel.security.fetch import Fetcher, check_url
from carrel.security.server.bearer import Unverifiable
from carrel.transports.addresses import is_loopback

__all__ = ["application_type", "check_document_url", "register"]

#: Authentication methods that a public client registers with, preferred first.
METHODS = ("none", "client_secret_basic", "client_secret_post")


class RegistrationResponse(RedactedStruct, frozen=True):
    """Client registration response, reduced to the fields in use (RFC 7591, section 3.2.1)."""

    client_id: str
    client_secret: Secret | None = None
    client_secret_expires_at: float = 0
    token_endpoint_auth_method: str | None = None


def application_type(redirect_uri: str) -> str:
    """Return the ``application_type`` for a redirect URI: "web" or "native".

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#application-type-and-redirect-uri-constraints
    """
    parts = urlsplit(redirect_uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname or "") else "native"


def check_document_url(url: str) -> str:
    """Return the URL of a Client ID Metadata Document after checking it.

    Raises:
        ConfigError: the URL is not https, has no path, or has dot segments.
    """
    check_url(url, "client_metadata_url")
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.path in ("", "/") or {".", ".."} & set(parts.path.split("/")):
        raise ConfigError(
            f"client_metadata_url: {url!r} must be https and have a path, as https://example.com/client.json"
        )
    return url


async def register(
    server: AuthorizationServer,
    fetcher: Fetcher,
    *,
    redirect_uri: str,
    name: str,
    grant_types: Sequence[str] = ("authorization_code", "refresh_token"),
) -> ClientIdentity:
    """Register a client dynamically, and return its identity.

    No scopes are registered, as they would limit later requests.

    Raises:
        AuthorizationError: the server rejects the registration.
    """
    supported = server.token_endpoint_auth_methods_supported
    document: dict[str, Any] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": list(grant_types),
        "response_types": ["code"],
        "application_type": application_type(redirect_uri),
        "token_endpoint_auth_method": next((one for one in METHODS if supported is None or one in supported), "none"),
    }
    try:
        answer = await fetcher.ask("POST", server.endpoint("registration_endpoint"), document=document)
        if answer.status not in (200, 201):
            raise AuthorizationError(
                f"{server.issuer} does not register this client: {explain(answer)}. "
                "Register it there by hand, and say client_id='…'"
            )
        found = msgspec.convert({k: v for k, v in answer.read().items() if v is not None}, RegistrationResponse)
    except (Unverifiable, msgspec.ValidationError) as error:
        raise AuthorizationError(f"{server.issuer} does not register this client: {error}") from None
    return ClientIdentity(
        issuer=server.issuer,
        id=found.client_id,
        secret=found.client_secret or None,
        method=found.token_endpoint_auth_method,
        expires=found.client_secret_expires_at or None,
        redirect_uri=redirect_uri,
        dynamic=True,
    )
