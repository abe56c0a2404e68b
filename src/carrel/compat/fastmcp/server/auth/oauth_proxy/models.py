"""Records of the OAuth proxy, and its clients."""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from pydantic import AnyUrl, BaseModel, Field

from carrel.compat.fastmcp.server.auth.cimd import CIMDDocument
from carrel.compat.fastmcp.server.auth.redirect_validation import (
    is_loopback_host,
    is_redirect_uri_allowed_for_application_type,
    matches_allowed_pattern,
    validate_redirect_uri,
)
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.auth.provider import RegistrationError
from carrel.compat.mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull

__all__ = [
    "ClientCode",
    "JTIMapping",
    "OAuthTransaction",
    "ProxyDCRClient",
    "RefreshTokenMetadata",
    "UpstreamTokenSet",
    "check_redirect_uris",
]


#: Lifetimes in seconds where the upstream gives none.
DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = 3600
DEFAULT_ACCESS_TOKEN_EXPIRY_NO_REFRESH_SECONDS = 365 * 24 * 3600
DEFAULT_REFRESH_TOKEN_EXPIRY_SECONDS = 365 * 24 * 3600
DEFAULT_AUTH_CODE_EXPIRY_SECONDS = 5 * 60
HTTP_TIMEOUT_SECONDS = 30


def _hash_token(token: str) -> str:
    """Return the key of a stored refresh token."""
    return sha256(token.encode()).hexdigest()


class OAuthTransaction(BaseModel):
    """Authorization that a user has begun."""

    txn_id: str
    client_id: str
    client_redirect_uri: str
    client_state: str
    code_challenge: str | None
    code_challenge_method: str
    scopes: list[str]
    created_at: float
    resource: str | None = None
    proxy_code_verifier: str | None = None
    csrf_token: str | None = None
    csrf_expires_at: float | None = None
    consent_token: str | None = None


class ClientCode(BaseModel):
    """Authorization code for a client, with the upstream's tokens."""

    code: str
    client_id: str
    redirect_uri: str
    code_challenge: str | None
    code_challenge_method: str
    scopes: list[str]
    idp_tokens: dict[str, Any]
    expires_at: float
    created_at: float


class UpstreamTokenSet(BaseModel):
    """Tokens of the upstream, which no client sees."""

    upstream_token_id: str
    access_token: str
    refresh_token: str | None
    refresh_token_expires_at: float | None
    expires_at: float
    token_type: str
    scope: str
    client_id: str
    created_at: float
    raw_token_data: dict[str, Any] = Field(default_factory=dict)


class JTIMapping(BaseModel):
    """Tokens of the upstream that a token of the proxy stands for."""

    jti: str
    upstream_token_id: str
    created_at: float


class RefreshTokenMetadata(BaseModel):
    """Refresh token of the proxy, which is stored under its digest only."""

    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    created_at: float


class ProxyDCRClient(OAuthClientInformationFull):
    """Client of the proxy, whose redirect URIs have to fit the operator's patterns, or its registration."""

    allowed_redirect_uri_patterns: list[str] | None = None
    cimd_document: CIMDDocument | None = None
    cimd_fetched_at: float | None = None
    allow_unregistered_redirect_uris: bool = Field(default=False, exclude=True)

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Return the redirect URI of a request.

        Raises:
            InvalidRedirectUriError: the URI is not allowed, or is missing and cannot be inferred.
        """
        document = self.cimd_document
        if redirect_uri is None:
            redirect_uri = self._only_uri() if document is not None else super().validate_redirect_uri(None)
        if not validate_redirect_uri(redirect_uri, None):
            raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' uses an unsafe scheme.")
        if not _fits_type(redirect_uri, self.application_type):
            raise InvalidRedirectUriError(
                f"Redirect URI '{redirect_uri}' is not allowed for application_type '{self.application_type}'."
            )
        if document is not None and not any(
            matches_allowed_pattern(str(redirect_uri), each) for each in document.redirect_uris
        ):
            raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' does not match CIMD redirect_uris.")
        patterns = self.allowed_redirect_uri_patterns
        if patterns is not None:
            if not validate_redirect_uri(redirect_uri, patterns):
                raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' does not match allowed patterns.")
        elif document is None and not self._is_registered(str(redirect_uri)):
            raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' not registered for client")
        return redirect_uri

    def _is_registered(self, uri: str) -> bool:
        """Return whether a redirect URI is registered. A client that was configured by hand has registered none."""
        if self.allow_unregistered_redirect_uris:
            return "@" not in urlsplit(uri).netloc
        return any(_is_same(uri, str(each)) for each in self.redirect_uris or ())

    def _only_uri(self) -> AnyUrl:
        """Return the only redirect URI of the client's document.

        Raises:
            InvalidRedirectUriError: there are several, or it has a wildcard.
        """
        uris = [] if self.cimd_document is None else self.cimd_document.redirect_uris
        if len(uris) != 1 or "*" in uris[0]:
            raise InvalidRedirectUriError(
                "redirect_uri must be specified: CIMD lists multiple redirect_uris or wildcards."
            )
        return AnyUrl(uris[0])


def _is_same(uri: str, registered: str) -> bool:
    """Return whether two URIs are equal; of a loopback host, the port may differ (RFC 8252, section 7.3)."""
    if uri == registered:
        return True
    given, known = urlsplit(uri), urlsplit(registered)
    if "@" in given.netloc + known.netloc or not is_loopback_host(known.hostname):
        return False
    return (given.scheme, given.hostname, given.path or "/", given.query, given.fragment) == (
        known.scheme,
        known.hostname,
        known.path or "/",
        known.query,
        known.fragment,
    )


def _fits_type(uri: AnyUrl, kind: str | None) -> bool:
    return fastmcp_generation() < 4 or is_redirect_uri_allowed_for_application_type(uri, kind)


def check_redirect_uris(client: OAuthClientInformationFull, patterns: list[str] | None) -> None:
    """Check the redirect URIs of a client that registers; in programs for FastMCP 4, also against its type.

    Raises:
        RegistrationError: one is not allowed, or a "web" client has none.
    """
    kind = client.application_type or "native"
    if fastmcp_generation() >= 4 and kind == "web" and not client.redirect_uris:
        raise RegistrationError("invalid_redirect_uri", "redirect_uris is required for application_type 'web'.")
    for uri in client.redirect_uris or ():
        if not validate_redirect_uri(uri, patterns):
            raise RegistrationError("invalid_redirect_uri", f"Redirect URI '{uri}' is not allowed.")
        if not _fits_type(uri, kind):
            raise RegistrationError(
                "invalid_redirect_uri", f"Redirect URI '{uri}' is not allowed for application_type '{kind}'."
            )
