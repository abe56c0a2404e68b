"""Client credentials grant: authorization without a user, by a client secret or a signed assertion (RFC 7523)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from pydantic import BaseModel

from carrel.compat.mcp.client.auth.context import TokenStorage
from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError
from carrel.compat.mcp.client.auth.oauth2 import OAuthClientProvider
from carrel.compat.mcp.client.auth.utils import issuers_match
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

__all__ = [
    "ClientCredentialsOAuthProvider",
    "JWTParameters",
    "PrivateKeyJWTOAuthProvider",
    "RFC7523OAuthClientProvider",
    "SignedJWTParameters",
    "static_assertion_provider",
]

AssertionProvider = Callable[[str], Awaitable[str]]
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def sign_assertion(
    issuer: str,
    subject: str,
    audience: str,
    lifetime: int,
    key: str,
    algorithm: str,
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return a signed assertion. ``lifetime`` is in seconds, ``key`` a private key as PEM, or a secret for HMAC."""
    from joserfc.jwk import OctKey, import_key
    from joserfc.jwt import encode

    now = int(time.time())
    claims = {
        "iss": issuer,
        "sub": subject,
        "aud": audience,
        "exp": now + lifetime,
        "iat": now,
        "jti": str(uuid4()),
        **(more or {}),
    }
    kinds = {"R": "RSA", "P": "RSA", "E": "OKP" if algorithm == "EdDSA" else "EC"}
    kind = kinds.get(algorithm[:1])
    signing: Any = OctKey.import_key(key) if kind is None else import_key(key, kind)  # type: ignore[call-overload]
    return encode({"alg": algorithm}, claims, signing, algorithms=[algorithm])


class CredentialsProvider(OAuthClientProvider):
    """Credentials of a registered client without a user, sent to ``issuer`` only, if it is given."""

    def __init__(
        self, server_url: str, storage: TokenStorage, client: OAuthClientInformationFull, issuer: str | None
    ) -> None:
        method: Any = client.token_endpoint_auth_method
        metadata = OAuthClientMetadata(
            redirect_uris=None,
            grant_types=client.grant_types,
            token_endpoint_auth_method=method,
            scope=client.scope,
        )
        super().__init__(server_url, metadata, storage)
        if issuer is None:
            warnings.warn(
                "Omitting `issuer` is deprecated: without it, the MCP server decides which authorization server "
                "receives the credentials of this client. Set it to the URL of the authorization server.",
                DeprecationWarning,
                stacklevel=3,
            )
        elif urlsplit(issuer).scheme not in ("http", "https"):
            raise ValueError(f"issuer must be the authorization server's http(s) issuer URL, got {issuer!r}")
        self._issuer = issuer
        self._fixed_client_info = client

    async def _initialize(self) -> None:
        self.context.current_tokens = await self.context.storage.get_tokens()
        self.context.client_info = self._fixed_client_info
        self._initialized = True

    def _select_authorization_server(self, advertised: Sequence[str]) -> str:
        issuer = self._issuer
        return next((each for each in advertised if issuer and issuers_match(each, issuer)), advertised[0])

    async def _perform_authorization(self) -> httpx.Request:
        return await self._exchange_token_client_credentials()

    async def _exchange_token_client_credentials(self) -> httpx.Request:
        """Return the request for tokens.

        Raises:
            OAuthFlowError: the configured issuer was not discovered.
        """
        self._check_issuer()
        data: dict[str, Any] = {"grant_type": "client_credentials"}
        await self._authenticate(data)
        if self.context.client_metadata.scope:
            data["scope"] = self.context.client_metadata.scope
        return self._token_request(data)

    async def _authenticate(self, data: dict[str, Any]) -> None:
        """Add what authenticates the client, besides its secret."""

    def _check_issuer(self) -> None:
        """Check that the metadata are of the configured issuer. Drop the metadata and the tokens of another issuer.

        Raises:
            OAuthFlowError: they are not.
        """
        context, issuer = self.context, self._issuer
        metadata = context.oauth_metadata
        if issuer is None or (metadata is not None and issuers_match(str(metadata.issuer), issuer)):
            return
        context.oauth_metadata = None
        context.clear_tokens()
        if metadata is None:
            raise OAuthFlowError(f"No authorization server metadata discovered for configured issuer {issuer}")
        raise OAuthFlowError(f"Authorization server metadata issuer mismatch: {metadata.issuer} != {issuer}")


def _client(client_id: str, method: str, scopes: str | None, secret: str | None = None) -> OAuthClientInformationFull:
    return OAuthClientInformationFull.model_validate(
        {
            "redirect_uris": None,
            "client_id": client_id,
            "client_secret": secret,
            "grant_types": ["client_credentials"],
            "token_endpoint_auth_method": method,
            "scope": scopes,
        }
    )


class ClientCredentialsOAuthProvider(CredentialsProvider):
    """Credentials of a client with a secret. ``issuer`` is the authorization server that knows the client.

    ``scope`` is the name of ``scopes`` in ``mcp`` 2.

    Raises:
        ValueError: the issuer is not an http or https URL.
    """

    def __init__(
        self,
        server_url: str,
        storage: TokenStorage,
        client_id: str,
        client_secret: str,
        token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic",
        scopes: str | None = None,
        issuer: str | None = None,
        *,
        scope: str | None = None,
    ) -> None:
        client = _client(client_id, token_endpoint_auth_method, scopes or scope, client_secret)
        super().__init__(server_url, storage, client, issuer)


class PrivateKeyJWTOAuthProvider(CredentialsProvider):
    """Credentials of a client that authenticates with a signed assertion, which ``assertion_provider`` returns.

    The function gets the audience: the issuer of the authorization server.

    Raises:
        ValueError: the issuer is not an http or https URL.
    """

    def __init__(
        self,
        server_url: str,
        storage: TokenStorage,
        client_id: str,
        assertion_provider: AssertionProvider,
        scopes: str | None = None,
        issuer: str | None = None,
        *,
        scope: str | None = None,
    ) -> None:
        super().__init__(server_url, storage, _client(client_id, "private_key_jwt", scopes or scope), issuer)
        self._assertion_provider = assertion_provider

    async def _authenticate(self, data: dict[str, Any]) -> None:
        await self._add_client_authentication_jwt(token_data=data)

    async def _add_client_authentication_jwt(self, *, token_data: dict[str, Any]) -> None:
        """Add the assertion to a token request.

        Raises:
            OAuthFlowError: the issuer is unknown.
        """
        metadata = self.context.oauth_metadata
        if not metadata:
            raise OAuthFlowError("Missing OAuth metadata for private_key_jwt flow")
        token_data["client_assertion"] = await self._assertion_provider(str(metadata.issuer))
        token_data["client_assertion_type"] = ASSERTION_TYPE


def static_assertion_provider(token: str) -> AssertionProvider:
    """Return a function that returns this assertion."""

    async def provide(audience: str) -> str:
        return token

    return provide


class SignedJWTParameters(BaseModel):
    """Assertions that are signed with a private key (PEM)."""

    issuer: str
    subject: str
    signing_key: str
    signing_algorithm: str = "RS256"
    lifetime_seconds: int = 300
    additional_claims: dict[str, Any] | None = None

    def create_assertion_provider(self) -> AssertionProvider:
        """Return a function that signs an assertion for an audience."""

        async def provide(audience: str) -> str:
            return sign_assertion(
                self.issuer,
                self.subject,
                audience,
                self.lifetime_seconds,
                self.signing_key,
                self.signing_algorithm,
                self.additional_claims,
            )

        return provide


class JWTParameters(BaseModel):
    """Assertion of a grant: ready-made, or signed with a private key."""

    assertion: str | None = None
    issuer: str | None = None
    subject: str | None = None
    audience: str | None = None
    claims: dict[str, Any] | None = None
    jwt_signing_algorithm: str | None = "RS256"
    jwt_signing_key: str | None = None
    jwt_lifetime_seconds: int = 300

    def to_assertion(self, with_audience_fallback: str | None = None) -> str:
        """Return the assertion.

        Raises:
            OAuthFlowError: a parameter is missing.
        """
        if self.assertion is not None:
            return self.assertion
        audience = self.audience or with_audience_fallback
        needed = {
            "signing key": self.jwt_signing_key,
            "issuer": self.issuer,
            "subject": self.subject,
            "audience": audience,
        }
        for name, value in needed.items():
            if not value:
                raise OAuthFlowError(f"Missing {name} for JWT bearer grant")
        return sign_assertion(
            self.issuer or "",
            self.subject or "",
            audience or "",
            self.jwt_lifetime_seconds,
            self.jwt_signing_key or "",
            self.jwt_signing_algorithm or "RS256",
            self.claims,
        )


class RFC7523OAuthClientProvider(OAuthClientProvider):
    """Credentials of a client whose grant is a signed assertion (deprecated)."""

    def __init__(self, *arguments: Any, jwt_parameters: JWTParameters | None = None, **options: Any) -> None:
        warnings.warn(
            "RFC7523OAuthClientProvider is deprecated. Use ClientCredentialsOAuthProvider "
            "or PrivateKeyJWTOAuthProvider instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(*arguments, **options)
        self.jwt_parameters = jwt_parameters

    async def _exchange_token_authorization_code(
        self, auth_code: str, code_verifier: str, *, token_data: dict[str, Any] | None = None
    ) -> httpx.Request:
        data = dict(token_data or {})
        if self.context.client_metadata.token_endpoint_auth_method == "private_key_jwt":
            data["client_assertion"] = self._assertion()
            data["client_assertion_type"] = ASSERTION_TYPE
            data["audience"] = self.context.get_resource_url()
        return await super()._exchange_token_authorization_code(auth_code, code_verifier, token_data=data)

    async def _perform_authorization(self) -> httpx.Request:
        if JWT_BEARER in self.context.client_metadata.grant_types:
            return await self._exchange_token_jwt_bearer()
        return await super()._perform_authorization()

    def _assertion(self) -> str:
        """Return the assertion for the issuer of the authorization server.

        Raises:
            OAuthFlowError: the parameters or the issuer are missing.
        """
        if not self.jwt_parameters:
            raise OAuthFlowError("Missing JWT parameters")
        if not self.context.oauth_metadata:
            raise OAuthFlowError("Missing OAuth metadata")
        return self.jwt_parameters.to_assertion(with_audience_fallback=str(self.context.oauth_metadata.issuer))

    async def _exchange_token_jwt_bearer(self) -> httpx.Request:
        """Return the request for tokens of an assertion.

        Raises:
            OAuthFlowError: there is no client, or no assertion.
        """
        if not self.context.client_info:
            raise OAuthFlowError("Missing client info")
        data = {"grant_type": JWT_BEARER, "assertion": self._assertion()}
        if self.context.should_include_resource_param(self.context.protocol_version):
            data["resource"] = self.context.get_resource_url()
        if self.context.client_metadata.scope:
            data["scope"] = self.context.client_metadata.scope
        return httpx.Request("POST", self._get_token_endpoint(), data=data)
