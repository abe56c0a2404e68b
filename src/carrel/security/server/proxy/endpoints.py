"""Endpoints of the OAuth proxy for clients: metadata, registration, token and revocation.

https://www.rfc-editor.org/rfc/rfc8414, https://www.rfc-editor.org/rfc/rfc7591, https://www.rfc-editor.org/rfc/rfc7009
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from carrel.log import Log
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.metadata import canonical
from carrel.security.server.proxy.clients import Clients, OAuthError
from carrel.security.server.proxy.grants import ProxyContext, ProxyGrants
from carrel.security.server.proxy.login import read_form
from carrel.transports.server.route import HTTPRequest, HTTPResponse

__all__ = ["Endpoints"]

log = Log("carrel.security")


class Endpoints:
    """Endpoints that clients call."""

    def __init__(self, context: ProxyContext, clients: Clients, grants: ProxyGrants) -> None:
        self._issuer = context.issuer
        self._resource = context.resource
        self._scopes = context.scopes
        self._clients = clients
        self._grants = grants

    async def metadata(self, request: HTTPRequest) -> HTTPResponse:
        """Return the authorization server metadata (RFC 8414)."""
        document = {
            "issuer": self._issuer,
            "authorization_endpoint": f"{self._issuer}/authorize",
            "token_endpoint": f"{self._issuer}/token",
            "registration_endpoint": f"{self._issuer}/register",
            "revocation_endpoint": f"{self._issuer}/revoke",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "scopes_supported": sorted(self._scopes.known),
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._clients.documents,
        }
        return answer(200, document, "max-age=300")

    async def register(self, request: HTTPRequest) -> HTTPResponse:
        """Register a client."""
        try:
            try:
                document = msgspec.json.decode(request.body, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise OAuthError("invalid_client_metadata", "The body is not a JSON object") from None
            return answer(201, self._clients.register(document))
        except OAuthError as error:
            return error_response(error)

    async def token(self, request: HTTPRequest) -> HTTPResponse:
        """Issue tokens for an authorization code or a refresh token."""
        try:
            form = self._form_of(request)
            client = self._clients.key_of(form.get("client_id", ""))
            if canonical(form.get("resource", self._resource)) != self._resource:
                raise OAuthError("invalid_target", f"resource must be {self._resource}")
            kind = form.get("grant_type")
            if kind == "authorization_code":
                return answer(200, await self._redeem(form, client))
            if kind == "refresh_token":
                return answer(200, await self._grants.refresh(form.get("refresh_token", ""), client))
            raise OAuthError("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
        except OAuthError as error:
            return error_response(error)
        except Unverifiable as error:
            log.error("tokens cannot be refreshed: %s", error)
            return error_response(
                OAuthError("temporarily_unavailable", "The login service gives no valid response", 503)
            )

    async def _redeem(self, form: Mapping[str, str], client: str) -> dict[str, Any]:
        code = self._grants.read_code(form.get("code", ""))
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        if (
            code.client != client
            or code.redirect_uri != form.get("redirect_uri")
            or not hmac.compare_digest(code.challenge, urlsafe_b64encode(digest).rstrip(b"=").decode())
        ):
            raise OAuthError("invalid_grant", "The code is not for this client, redirect_uri and code_verifier")
        return await self._grants.redeem(code)

    async def revoke(self, request: HTTPRequest) -> HTTPResponse:
        """Revoke the grant of a token. The response is the same for an unknown token."""
        try:
            form = self._form_of(request)
            client = self._clients.key_of(form.get("client_id", ""))
        except OAuthError as error:
            return error_response(error)
        id = self._grants.grant_of(form.get("token", ""))
        grant = None if id is None else await self._grants.load(id)
        if grant is not None and grant.client == client:
            await self._grants.end(grant.id)
        return answer(200, {})

    @staticmethod
    def _form_of(request: HTTPRequest) -> dict[str, str]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise OAuthError("invalid_request", "The body must be application/x-www-form-urlencoded")
        if "authorization" in request.headers:
            raise OAuthError("invalid_client", "Clients are public here: client_id in the form, no secret", 401)
        return read_form(request.body.decode("utf-8", "replace"))


def answer(status: int, document: Mapping[str, Any], caching: str = "no-store") -> HTTPResponse:
    """Return a JSON response."""
    headers = {"content-type": "application/json", "cache-control": caching}
    return HTTPResponse(status, headers, msgspec.json.encode(document))


def error_response(error: OAuthError) -> HTTPResponse:
    """Return an OAuth error response."""
    return answer(error.status, {"error": error.error, "error_description": str(error)})
