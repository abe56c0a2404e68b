"""Token endpoint: authorization codes, refresh tokens (RFC 6749, sections 4.1.3 and 6), identity assertions."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import AnyHttpUrl, AnyUrl, BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.generation import is_mcp_2
from carrel.compat.mcp.server.auth.errors import stringify_pydantic_error
from carrel.compat.mcp.server.auth.form import read_form
from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse
from carrel.compat.mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from carrel.compat.mcp.server.auth.provider import (
    IdentityAssertionParams,
    OAuthAuthorizationServerProvider,
    TokenError,
    TokenErrorCode,
)
from carrel.compat.mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthToken

__all__ = [
    "AuthorizationCodeRequest",
    "JwtBearerRequest",
    "RefreshTokenRequest",
    "TokenErrorResponse",
    "TokenHandler",
    "TokenSuccessResponse",
]

HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class AuthorizationCodeRequest(BaseModel):
    """Request to exchange an authorization code."""

    grant_type: Literal["authorization_code"]
    code: str = Field(...)
    redirect_uri: AnyUrl | None = None
    client_id: str
    client_secret: str | None = None
    code_verifier: str = Field(...)
    resource: str | None = None


class RefreshTokenRequest(BaseModel):
    """Request to exchange a refresh token."""

    grant_type: Literal["refresh_token"]
    refresh_token: str = Field(...)
    scope: str | None = None
    client_id: str
    client_secret: str | None = None
    resource: str | None = None


class JwtBearerRequest(BaseModel):
    """Request for tokens with an identity assertion (RFC 7523, section 2.1)."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assertion: str = Field(...)
    scope: str | None = None
    client_id: str
    client_secret: str | None = None
    resource: str | None = None


TokenRequest = Annotated[AuthorizationCodeRequest | RefreshTokenRequest, Field(discriminator="grant_type")]
TOKEN_REQUEST: TypeAdapter[AuthorizationCodeRequest | RefreshTokenRequest] = TypeAdapter(TokenRequest)
TokenSuccessResponse = OAuthToken


class TokenErrorResponse(BaseModel):
    """Error response (RFC 6749, section 5.2)."""

    error: TokenErrorCode
    error_description: str | None = None
    error_uri: AnyHttpUrl | None = None


@dataclass
class TokenHandler:
    """Token endpoint."""

    provider: OAuthAuthorizationServerProvider[Any, Any, Any]
    client_authenticator: ClientAuthenticator
    identity_assertion_enabled: bool = False

    def response(self, obj: BaseModel) -> Response:
        """Return the response for tokens, or for an error."""
        status = 400 if isinstance(obj, TokenErrorResponse) else 200
        return PydanticJSONResponse(obj, status_code=status, headers=HEADERS)

    async def handle(self, request: Request) -> Response:
        """Exchange an authorization code or a refresh token for tokens."""
        try:
            client = await self.client_authenticator.authenticate_request(request)
        except AuthenticationError as error:
            code: TokenErrorCode = "invalid_client" if is_mcp_2() else "unauthorized_client"
            refused = TokenErrorResponse(error=code, error_description=error.message)
            return PydanticJSONResponse(refused, status_code=401, headers=HEADERS)
        try:
            form = await read_form(request)
            assertion = form.get("grant_type") == JWT_BEARER_GRANT_TYPE
            asked = JwtBearerRequest.model_validate(form) if assertion else TOKEN_REQUEST.validate_python(form)
            if asked.grant_type not in client.grant_types:
                raise TokenError(
                    "unsupported_grant_type",
                    f"Unsupported grant type (supported grant types are {client.grant_types})",
                )
            if isinstance(asked, AuthorizationCodeRequest):
                return self.response(await self._redeem(client, asked))
            if isinstance(asked, JwtBearerRequest):
                return self.response(await self._assert_identity(client, asked))
            return self.response(await self._refresh(client, asked))
        except ValidationError as error:
            return self.response(
                TokenErrorResponse(error="invalid_request", error_description=stringify_pydantic_error(error))
            )
        except TokenError as error:
            return self.response(TokenErrorResponse(error=error.error, error_description=error.error_description))

    async def _redeem(self, client: OAuthClientInformationFull, asked: AuthorizationCodeRequest) -> OAuthToken:
        """Return tokens for an authorization code, after the checks of its client, expiry, redirect URI and PKCE.

        Raises:
            TokenError: a check failed, or the provider refuses the code.
        """
        code = await self.provider.load_authorization_code(client, asked.code)
        if code is None or code.client_id != client.client_id:
            raise TokenError("invalid_grant", "authorization code does not exist")
        if code.expires_at < time.time():
            raise TokenError("invalid_grant", "authorization code has expired")
        expected = str(code.redirect_uri) if code.redirect_uri_provided_explicitly else None
        if expected != (None if asked.redirect_uri is None else str(asked.redirect_uri)):
            raise TokenError("invalid_request", "redirect_uri did not match the one used when creating auth code")
        digest = urlsafe_b64encode(sha256(asked.code_verifier.encode()).digest()).rstrip(b"=")
        if not hmac.compare_digest(digest, code.code_challenge.encode()):
            raise TokenError("invalid_grant", "incorrect code_verifier")
        return await self.provider.exchange_authorization_code(client, code)

    async def _assert_identity(self, client: OAuthClientInformationFull, asked: JwtBearerRequest) -> OAuthToken:
        """Return tokens for an identity assertion, which only clients with a secret may present.

        Raises:
            TokenError: it is not enabled, the client has no secret, or the provider refuses the assertion.
        """
        if not self.identity_assertion_enabled:
            raise TokenError(
                "unsupported_grant_type", "The JWT bearer grant is not supported by this authorization server"
            )
        if not client.client_secret:
            raise TokenError("unauthorized_client", "The JWT bearer grant requires a confidential client")
        scopes = asked.scope.split(" ") if asked.scope else None
        params = IdentityAssertionParams(assertion=asked.assertion, scopes=scopes, resource=asked.resource)
        return await self.provider.exchange_identity_assertion(client, params)

    async def _refresh(self, client: OAuthClientInformationFull, asked: RefreshTokenRequest) -> OAuthToken:
        """Return tokens for a refresh token, after the checks of its client, expiry and scopes.

        Raises:
            TokenError: a check failed, or the provider refuses the token.
        """
        found = await self.provider.load_refresh_token(client, asked.refresh_token)
        if found is None or found.client_id != client.client_id:
            raise TokenError("invalid_grant", "refresh token does not exist")
        if found.expires_at and found.expires_at < time.time():
            raise TokenError("invalid_grant", "refresh token has expired")
        scopes: list[str] = asked.scope.split(" ") if asked.scope else found.scopes
        for scope in scopes:
            if scope not in found.scopes:
                raise TokenError("invalid_scope", f"cannot request scope `{scope}` not provided by refresh token")
        return await self.provider.exchange_refresh_token(client, found, scopes)
