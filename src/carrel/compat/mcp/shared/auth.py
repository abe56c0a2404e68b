"""Models of OAuth 2.0: tokens, clients and metadata documents."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AnyHttpUrl, AnyUrl, BaseModel, ConfigDict, Field, field_validator, model_validator

from carrel.compat.generation import is_mcp_2

__all__ = [
    "DEFAULT_GRANT_TYPES",
    "JWT_BEARER_GRANT_TYPE",
    "AuthorizationCodeResult",
    "InvalidRedirectUriError",
    "InvalidScopeError",
    "OAuthClientInformationFull",
    "OAuthClientMetadata",
    "OAuthMetadata",
    "OAuthToken",
    "ProtectedResourceMetadata",
]

#: Grant of identity assertions (RFC 7523).
JWT_BEARER_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
DEFAULT_GRANT_TYPES = ["authorization_code", "refresh_token"]
GrantType = Literal["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"] | str


#: With ``mcp`` 2, the URL of an origin has no slash at its end: issuers are compared as strings.
URLS = ConfigDict(url_preserve_empty_path=is_mcp_2())


class MessageError(Exception):
    """Error with a ``message``."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidScopeError(MessageError):
    """The client is not registered with a scope."""


class InvalidRedirectUriError(MessageError):
    """The client is not registered with a redirect URI."""


class OAuthToken(BaseModel):
    """Successful token response (RFC 6749, section 5.1)."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"
    expires_in: int | None = None
    scope: str | None = None
    refresh_token: str | None = None

    @field_validator("token_type", mode="before")
    @classmethod
    def normalize_token_type(cls, value: object) -> object:
        """Accept the type in any case."""
        return value.title() if isinstance(value, str) else value


class AuthorizationCodeResult(BaseModel):
    """Parameters of the redirect with an authorization code, as callback handlers of ``mcp`` 2 return them."""

    code: str
    state: str | None = None
    iss: str | None = None


class OAuthClientMetadata(BaseModel):
    """Metadata of a client that registers (RFC 7591, section 2)."""

    model_config = URLS

    redirect_uris: list[AnyUrl] | None = Field(..., min_length=1)
    token_endpoint_auth_method: (
        Literal["none", "client_secret_post", "client_secret_basic", "private_key_jwt"] | None
    ) = None
    grant_types: list[GrantType] = list(DEFAULT_GRANT_TYPES)
    application_type: str | None = None
    response_types: list[str] = ["code"]
    scope: str | None = None
    client_name: str | None = None
    client_uri: AnyHttpUrl | None = None
    logo_uri: AnyHttpUrl | None = None
    contacts: list[str] | None = None
    tos_uri: AnyHttpUrl | None = None
    policy_uri: AnyHttpUrl | None = None
    jwks_uri: AnyHttpUrl | None = None
    jwks: Any | None = None
    software_id: str | None = None
    software_version: str | None = None

    @field_validator("client_uri", "logo_uri", "tos_uri", "policy_uri", "jwks_uri", mode="before")
    @classmethod
    def _drop_empty(cls, value: object) -> object:
        return None if value == "" else value

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """Return the requested scopes.

        Raises:
            InvalidScopeError: the client is not registered with a scope.
        """
        if requested_scope is None:
            return None
        requested = requested_scope.split(" ")
        allowed = [] if self.scope is None else self.scope.split(" ")
        for scope in requested:
            if scope not in allowed:
                raise InvalidScopeError(f"Client was not registered with scope {scope}")
        return requested

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Return the redirect URI of a request, which must equal a registered URI.

        Raises:
            InvalidRedirectUriError: the URI is not registered, or is missing and cannot be inferred.
        """
        registered = self.redirect_uris or []
        if redirect_uri is not None:
            if redirect_uri not in registered:
                raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' not registered for client")
            return redirect_uri
        if len(registered) != 1:
            raise InvalidRedirectUriError("redirect_uri must be specified when client has multiple registered URIs")
        return registered[0]


class OAuthClientInformationFull(OAuthClientMetadata):
    """Registered client: its metadata and its credentials (RFC 7591, section 3.2.1).

    ``issuer`` is the authorization server that registered it, which clients record for themselves. An authorization
    server may change what a client wants, and may have null or "" for members that it does not have.
    """

    redirect_uris: list[AnyUrl] | None = None
    token_endpoint_auth_method: str | None = None  # type: ignore[assignment]
    client_id: str | None = None
    client_secret: str | None = None
    client_id_issued_at: int | None = None
    client_secret_expires_at: int | None = None
    issuer: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_placeholders(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items() if value is not None and value != ""}


class OAuthMetadata(BaseModel):
    """Authorization server metadata (RFC 8414)."""

    model_config = URLS

    issuer: AnyHttpUrl
    authorization_endpoint: AnyHttpUrl
    token_endpoint: AnyHttpUrl
    registration_endpoint: AnyHttpUrl | None = None
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] = ["code"]
    response_modes_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    token_endpoint_auth_signing_alg_values_supported: list[str] | None = None
    service_documentation: AnyHttpUrl | None = None
    ui_locales_supported: list[str] | None = None
    op_policy_uri: AnyHttpUrl | None = None
    op_tos_uri: AnyHttpUrl | None = None
    revocation_endpoint: AnyHttpUrl | None = None
    revocation_endpoint_auth_methods_supported: list[str] | None = None
    revocation_endpoint_auth_signing_alg_values_supported: list[str] | None = None
    introspection_endpoint: AnyHttpUrl | None = None
    introspection_endpoint_auth_methods_supported: list[str] | None = None
    introspection_endpoint_auth_signing_alg_values_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    authorization_grant_profiles_supported: list[str] | None = None


class ProtectedResourceMetadata(BaseModel):
    """Protected resource metadata (RFC 9728)."""

    model_config = URLS

    resource: AnyHttpUrl
    authorization_servers: list[AnyHttpUrl] = Field(..., min_length=1)
    jwks_uri: AnyHttpUrl | None = None
    scopes_supported: list[str] | None = None
    bearer_methods_supported: list[str] | None = Field(default=["header"])
    resource_signing_alg_values_supported: list[str] | None = None
    resource_name: str | None = None
    resource_documentation: AnyHttpUrl | None = None
    resource_policy_uri: AnyHttpUrl | None = None
    resource_tos_uri: AnyHttpUrl | None = None
    tls_client_certificate_bound_access_tokens: bool | None = None
    authorization_details_types_supported: list[str] | None = None
    dpop_signing_alg_values_supported: list[str] | None = None
    dpop_bound_access_tokens_required: bool | None = None
