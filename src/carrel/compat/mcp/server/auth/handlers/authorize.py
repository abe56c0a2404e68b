"""Authorization endpoint (RFC 6749, section 4.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import AnyUrl, BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from carrel.compat.mcp.server.auth.errors import stringify_pydantic_error
from carrel.compat.mcp.server.auth.form import read_form
from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse
from carrel.compat.mcp.server.auth.provider import (
    AuthorizationErrorCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    construct_redirect_uri,
)
from carrel.compat.mcp.shared.auth import InvalidRedirectUriError, InvalidScopeError, OAuthClientInformationFull
from carrel.log import Log

__all__ = ["AuthorizationErrorResponse", "AuthorizationHandler", "AuthorizationRequest"]

log = Log("carrel.compat")

NO_STORE = {"Cache-Control": "no-store"}
ANY_URL: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)


class AuthorizationRequest(BaseModel):
    """Parameters of an authorization request. PKCE with S256 is required."""

    client_id: str = Field(...)
    redirect_uri: AnyUrl | None = None
    response_type: Literal["code"] = Field(...)
    code_challenge: str = Field(...)
    code_challenge_method: Literal["S256"] = "S256"
    state: str | None = None
    scope: str | None = None
    resource: str | None = None


class AuthorizationErrorResponse(BaseModel):
    """Error response (RFC 6749, section 4.1.2.1)."""

    error: AuthorizationErrorCode
    error_description: str | None
    error_uri: AnyUrl | None = None
    state: str | None = None


class Refusal(Exception):
    """Error response to an authorization request."""

    def __init__(self, error: AuthorizationErrorCode, description: str | None) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


@dataclass
class AuthorizationHandler:
    """Authorization endpoint. The provider decides where the browser goes.

    Errors are sent to the redirect URI only if it is registered for the client; otherwise the user sees them.
    """

    provider: OAuthAuthorizationServerProvider[Any, Any, Any]

    async def handle(self, request: Request) -> Response:
        """Redirect the browser to the provider's URL, or respond with an error."""
        params: Mapping[str, Any] = {}
        try:
            params = request.query_params if request.method == "GET" else await read_form(request)
            url = await self._authorize(params)
            return RedirectResponse(url, status_code=302, headers=NO_STORE)
        except Refusal as refusal:
            return await self._respond(params, refusal)
        except Exception:
            log.exception("an authorization request failed")
            return await self._respond(params, Refusal("server_error", "An unexpected error occurred"))

    async def _authorize(self, params: Mapping[str, Any]) -> str:
        """Return the URL that the provider chooses.

        Raises:
            Refusal: the request is not valid, or the provider refuses it.
        """
        try:
            asked = AuthorizationRequest.model_validate(dict(params))
        except ValidationError as error:
            wrong = any(e["loc"] == ("response_type",) and e["type"] == "literal_error" for e in error.errors())
            code: AuthorizationErrorCode = "unsupported_response_type" if wrong else "invalid_request"
            raise Refusal(code, stringify_pydantic_error(error)) from None
        client = await self.provider.get_client(asked.client_id)
        if client is None:
            raise Refusal("invalid_request", f"Client ID '{asked.client_id}' not found")
        try:
            redirect_uri = client.validate_redirect_uri(asked.redirect_uri)
            scopes = client.validate_scope(asked.scope)
        except InvalidRedirectUriError as error:
            raise Refusal("invalid_request", error.message) from None
        except InvalidScopeError as error:
            raise Refusal("invalid_scope", error.message) from None
        given = AuthorizationParams(
            state=asked.state,
            scopes=scopes,
            code_challenge=asked.code_challenge,
            redirect_uri=redirect_uri,
            redirect_uri_provided_explicitly=asked.redirect_uri is not None,
            resource=asked.resource,
        )
        try:
            return await self.provider.authorize(client, given)
        except AuthorizeError as error:
            raise Refusal(error.error, error.error_description) from None

    async def _respond(self, params: Mapping[str, Any], refusal: Refusal) -> Response:
        found = AuthorizationErrorResponse(
            error=refusal.error, error_description=refusal.description, state=_text(params, "state")
        )
        target = await self._target(params)
        if target is None:
            return PydanticJSONResponse(found, status_code=400, headers=NO_STORE)
        issuer = getattr(self.provider, "response_issuer", None)  # of servers that name it in every response (RFC 9207)
        named = {} if issuer is None else {"iss": issuer}
        url = construct_redirect_uri(str(target), **found.model_dump(mode="json", exclude_none=True), **named)
        return RedirectResponse(url, status_code=302, headers=NO_STORE)

    async def _target(self, params: Mapping[str, Any]) -> AnyUrl | None:
        """Return the registered redirect URI of a request, or None if the client or the URI is unknown."""
        client_id = _text(params, "client_id")
        client: OAuthClientInformationFull | None = await self.provider.get_client(client_id) if client_id else None
        if client is None:
            return None
        try:
            uri = ANY_URL.validate_python(_text(params, "redirect_uri")) if "redirect_uri" in params else None
            return client.validate_redirect_uri(uri)
        except (ValidationError, InvalidRedirectUriError):
            return None


def _text(params: Mapping[str, Any], name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) else None
