"""Interfaces of programs: authorization servers and token verifiers, and the models that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import AnyUrl, BaseModel

from carrel.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthToken

__all__ = [
    "AccessToken",
    "AccessTokenT",
    "AuthorizationCode",
    "AuthorizationCodeT",
    "AuthorizationErrorCode",
    "AuthorizationParams",
    "AuthorizeError",
    "IdentityAssertionParams",
    "OAuthAuthorizationServerProvider",
    "ProviderTokenVerifier",
    "RefreshToken",
    "RefreshTokenT",
    "RegistrationError",
    "RegistrationErrorCode",
    "TokenError",
    "TokenErrorCode",
    "TokenVerifier",
    "construct_redirect_uri",
    "principal_components",
]

RegistrationErrorCode = Literal[
    "invalid_redirect_uri",
    "invalid_client_metadata",
    "invalid_software_statement",
    "unapproved_software_statement",
]
AuthorizationErrorCode = Literal[
    "invalid_request",
    "unauthorized_client",
    "access_denied",
    "unsupported_response_type",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "temporarily_unavailable",
]
TokenErrorCode = Literal[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
]


class IdentityAssertionParams(BaseModel):
    """Request for tokens with an identity assertion, a JWT of the identity provider of an enterprise (RFC 7523)."""

    assertion: str
    scopes: list[str] | None = None
    resource: str | None = None


class AuthorizationParams(BaseModel):
    """Parameters of an authorization request, validated."""

    state: str | None
    scopes: list[str] | None
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None


class AuthorizationCode(BaseModel):
    """Authorization code that was issued to a client. ``expires_at`` is in seconds since the epoch."""

    code: str
    scopes: list[str]
    expires_at: float
    client_id: str
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None
    subject: str | None = None


class RefreshToken(BaseModel):
    """Refresh token that was issued to a client."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None


class AccessToken(BaseModel):
    """Verified access token: client, scopes, resource (audience), resource owner and further claims."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: dict[str, Any] | None = None


@dataclass(eq=False)
class RegistrationError(Exception):
    """Raise it to refuse a registration (RFC 7591, section 3.2.2)."""

    error: RegistrationErrorCode
    error_description: str | None = None


@dataclass(eq=False)
class AuthorizeError(Exception):
    """Raise it to refuse an authorization request (RFC 6749, section 4.1.2.1)."""

    error: AuthorizationErrorCode
    error_description: str | None = None


@dataclass(eq=False)
class TokenError(Exception):
    """Raise it to refuse a token request (RFC 6749, section 5.2)."""

    error: TokenErrorCode
    error_description: str | None = None


class TokenVerifier(Protocol):
    """Verifier of access tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not valid. ``resource`` is the resource it was issued for."""


AuthorizationCodeT = TypeVar("AuthorizationCodeT", bound=AuthorizationCode)
RefreshTokenT = TypeVar("RefreshTokenT", bound=RefreshToken)
AccessTokenT = TypeVar("AccessTokenT", bound=AccessToken)


class OAuthAuthorizationServerProvider(Protocol, Generic[AuthorizationCodeT, RefreshTokenT, AccessTokenT]):
    """Authorization server of a program. The endpoints validate requests; the provider stores and decides."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client, or None."""

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client.

        Raises:
            RegistrationError: the client is refused.
        """

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the URL to redirect the user's browser to: a login, or ``params.redirect_uri`` with a code.

        Raises:
            AuthorizeError: the request is refused.
        """
        ...

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCodeT | None:
        """Return an authorization code that was issued, or None."""

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCodeT
    ) -> OAuthToken:
        """Return tokens for an authorization code, which must not be accepted again.

        Raises:
            TokenError: the request is refused.
        """
        ...

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshTokenT | None:
        """Return a refresh token that was issued, or None."""

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshTokenT, scopes: list[str]
    ) -> OAuthToken:
        """Return tokens for a refresh token, which should be replaced.

        Raises:
            TokenError: the request is refused.
        """
        ...

    async def load_access_token(self, token: str) -> AccessTokenT | None:
        """Return an access token that was issued and is valid, or None."""

    async def revoke_token(self, token: AccessTokenT | RefreshTokenT) -> None:
        """Revoke a token, and the tokens that were issued with it."""

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        """Return tokens for an identity assertion, which the provider has to verify (RFC 7523, section 3).

        Raises:
            TokenError: the request is refused, as all requests are by default.
        """
        raise TokenError("unsupported_grant_type", "The JWT bearer grant is not supported by this authorization server")


def construct_redirect_uri(redirect_uri_base: str, **params: str | None) -> str:
    """Return a redirect URI with parameters added to its query. Parameters that are None are left out."""
    parts = urlsplit(redirect_uri_base)
    pairs = [*parse_qsl(parts.query), *((name, value) for name, value in params.items() if value is not None)]
    return urlunsplit(parts._replace(query=urlencode(pairs)))


def principal_components(token: AccessToken) -> tuple[str, str | None, str | None]:
    """Return client, issuer and subject of a token: the identity of its caller."""
    issuer = (token.claims or {}).get("iss")
    return token.client_id, None if issuer is None else str(issuer), token.subject


class ProviderTokenVerifier(TokenVerifier):
    """Verifier of the tokens that a program's authorization server issued."""

    def __init__(self, provider: OAuthAuthorizationServerProvider[Any, Any, Any]) -> None:
        self.provider = provider

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if the provider does not know it."""
        found: AccessToken | None = await self.provider.load_access_token(token)
        return found
