"""Settings of authorization."""

from __future__ import annotations

import warnings
from typing import Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, model_validator

from carrel.compat.generation import is_mcp_2

__all__ = ["AuthSettings", "ClientRegistrationOptions", "RevocationOptions"]


class ClientRegistrationOptions(BaseModel):
    """Dynamic client registration at the server's own authorization server."""

    enabled: bool = False
    client_secret_expiry_seconds: int | None = None
    valid_scopes: list[str] | None = None
    default_scopes: list[str] | None = None


class RevocationOptions(BaseModel):
    """Token revocation at the server's own authorization server."""

    enabled: bool = False


class AuthSettings(BaseModel):
    """Settings of authorization: the issuer of tokens, and the URL of this server.

    With ``validate_token_resource``, tokens that a verifier reports for another resource are rejected. With
    ``identity_assertion_enabled``, the provider's ``exchange_identity_assertion`` answers identity assertions.
    """

    model_config = ConfigDict(url_preserve_empty_path=is_mcp_2())

    issuer_url: AnyHttpUrl = Field(...)
    service_documentation_url: AnyHttpUrl | None = None
    client_registration_options: ClientRegistrationOptions | None = None
    revocation_options: RevocationOptions | None = None
    required_scopes: list[str] | None = None
    identity_assertion_enabled: bool = False
    resource_server_url: AnyHttpUrl | None = Field(...)
    validate_token_resource: bool | None = None

    @model_validator(mode="after")
    def _check_validate_token_resource(self) -> Self:
        if self.resource_server_url is None:
            if self.validate_token_resource:
                raise ValueError("validate_token_resource requires resource_server_url")
        elif self.validate_token_resource is None:
            warnings.warn(
                "`AuthSettings.validate_token_resource` is not set: tokens are accepted for any resource. Set it to "
                "True to reject tokens for other resources, or to False if the token verifier checks the audience.",
                DeprecationWarning,
                stacklevel=3,
            )
        return self
