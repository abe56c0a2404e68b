"""Dynamic client registration endpoint (RFC 7591)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.generation import is_mcp_2
from carrel.compat.mcp.server.auth.errors import stringify_pydantic_error
from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse
from carrel.compat.mcp.server.auth.provider import (
    OAuthAuthorizationServerProvider,
    RegistrationError,
    RegistrationErrorCode,
)
from carrel.compat.mcp.server.auth.settings import ClientRegistrationOptions
from carrel.compat.mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthClientMetadata

__all__ = ["RegistrationErrorResponse", "RegistrationHandler"]

REQUIRED_GRANTS = {"authorization_code", "refresh_token"}


class RegistrationErrorResponse(BaseModel):
    """Error response (RFC 7591, section 3.2.2)."""

    error: RegistrationErrorCode
    error_description: str | None


@dataclass
class RegistrationHandler:
    """Registration endpoint: it issues an id, and a secret if the client authenticates with one."""

    provider: OAuthAuthorizationServerProvider[Any, Any, Any]
    options: ClientRegistrationOptions

    async def handle(self, request: Request) -> Response:
        """Register a client."""
        try:
            metadata = OAuthClientMetadata.model_validate_json(await request.body())
            client = self._client(metadata)
            await self.provider.register_client(client)
        except ValidationError as error:
            return _refused("invalid_client_metadata", stringify_pydantic_error(error))
        except RegistrationError as error:
            return _refused(error.error, error.error_description)
        return PydanticJSONResponse(client, status_code=201)

    def _client(self, metadata: OAuthClientMetadata) -> OAuthClientInformationFull:
        """Return the client that is registered.

        Raises:
            RegistrationError: its metadata are not acceptable.
        """
        options, scope = self.options, metadata.scope
        if scope is None and options.default_scopes is not None:
            scope = " ".join(options.default_scopes)
        elif scope is not None and options.valid_scopes is not None:
            wrong = set(scope.split()) - set(options.valid_scopes)
            if wrong:
                raise RegistrationError(
                    "invalid_client_metadata", f"Requested scopes are not valid: {', '.join(sorted(wrong))}"
                )
        if is_mcp_2():
            _check_as_mcp_2(metadata)
        elif not REQUIRED_GRANTS.issubset(metadata.grant_types):
            raise RegistrationError(
                "invalid_client_metadata", "grant_types must be authorization_code and refresh_token"
            )
        if JWT_BEARER_GRANT_TYPE in metadata.grant_types:
            raise RegistrationError(
                "invalid_client_metadata",
                f"grant_types must not include '{JWT_BEARER_GRANT_TYPE}'; "
                "the identity-assertion grant requires a pre-registered client",
            )
        if "code" not in metadata.response_types:
            raise RegistrationError(
                "invalid_client_metadata", "response_types must include 'code' for authorization_code grant"
            )
        method = metadata.token_endpoint_auth_method or "client_secret_post"
        now, lifetime = int(time.time()), options.client_secret_expiry_seconds
        expires = None if lifetime is None else now + lifetime
        if is_mcp_2():
            expires = None if method == "none" else expires or 0  # RFC 7591, section 3.2.1
            metadata.application_type = metadata.application_type or "native"
        return OAuthClientInformationFull(
            **metadata.model_dump(exclude={"scope", "token_endpoint_auth_method"}),
            scope=scope,
            token_endpoint_auth_method=method,
            client_id=str(uuid4()),
            client_id_issued_at=now,
            client_secret=None if method == "none" else secrets.token_hex(32),
            client_secret_expires_at=expires,
        )


def _check_as_mcp_2(metadata: OAuthClientMetadata) -> None:
    """Check the grants and the authentication of a client as ``mcp`` 2 does.

    Raises:
        RegistrationError: they are not acceptable.
    """
    if metadata.token_endpoint_auth_method == "private_key_jwt":
        raise RegistrationError(
            "invalid_client_metadata", "token_endpoint_auth_method 'private_key_jwt' is not supported"
        )
    if "authorization_code" not in metadata.grant_types:
        raise RegistrationError("invalid_client_metadata", "grant_types must include 'authorization_code'")


def _refused(error: RegistrationErrorCode, description: str | None) -> Response:
    return PydanticJSONResponse(RegistrationErrorResponse(error=error, error_description=description), status_code=400)
