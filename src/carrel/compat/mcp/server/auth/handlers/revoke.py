"""Token revocation endpoint (RFC 7009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.mcp.server.auth.errors import stringify_pydantic_error
from carrel.compat.mcp.server.auth.form import read_form
from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse
from carrel.compat.mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from carrel.compat.mcp.server.auth.provider import OAuthAuthorizationServerProvider
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull

__all__ = ["RevocationErrorResponse", "RevocationHandler", "RevocationRequest"]


class RevocationRequest(BaseModel):
    """Parameters of a revocation."""

    token: str
    token_type_hint: Literal["access_token", "refresh_token"] | None = None
    client_id: str
    client_secret: str | None


class RevocationErrorResponse(BaseModel):
    """Error response."""

    error: Literal["invalid_request", "unauthorized_client"]
    error_description: str | None = None


@dataclass
class RevocationHandler:
    """Revocation endpoint. The response is the same whether or not the token is known."""

    provider: OAuthAuthorizationServerProvider[Any, Any, Any]
    client_authenticator: ClientAuthenticator

    async def handle(self, request: Request) -> Response:
        """Revoke a token that was issued to the client."""
        try:
            client = await self.client_authenticator.authenticate_request(request)
        except AuthenticationError as error:
            refused = RevocationErrorResponse(error="unauthorized_client", error_description=error.message)
            return PydanticJSONResponse(refused, status_code=401)
        try:
            asked = RevocationRequest.model_validate(await read_form(request))
        except ValidationError as error:
            wrong = RevocationErrorResponse(error="invalid_request", error_description=stringify_pydantic_error(error))
            return PydanticJSONResponse(wrong, status_code=400)
        found = await self._load(client, asked)
        if found is not None and found.client_id == client.client_id:
            await self.provider.revoke_token(found)
        return Response(headers={"Cache-Control": "no-store", "Pragma": "no-cache"})

    async def _load(self, client: OAuthClientInformationFull, asked: RevocationRequest) -> Any:
        kinds = ["access_token", "refresh_token"]
        if asked.token_type_hint == "refresh_token":
            kinds.reverse()
        for kind in kinds:
            if kind == "access_token":
                found = await self.provider.load_access_token(asked.token)
            else:
                found = await self.provider.load_refresh_token(client, asked.token)
            if found is not None:
                return found
        return None
