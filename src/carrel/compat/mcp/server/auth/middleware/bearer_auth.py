"""Bearer tokens: authentication of requests, and responses without a valid token (RFC 6750)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, TypedDict

from pydantic import AnyHttpUrl, ValidationError
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.requests import HTTPConnection

from carrel.compat.mcp.server.auth.provider import AccessToken, TokenVerifier, principal_components
from carrel.log import Log

__all__ = [
    "AuthenticatedUser",
    "AuthorizationContext",
    "BearerAuthBackend",
    "RequireAuthMiddleware",
    "authorization_context",
]

log = Log("carrel.compat")


class AuthenticatedUser(SimpleUser):
    """User of a request: the client that sent it, with its access token."""

    def __init__(self, auth_info: AccessToken) -> None:
        super().__init__(auth_info.client_id)
        self.access_token = auth_info
        self.scopes = auth_info.scopes


class AuthorizationContext(TypedDict):
    """Identity of the caller, which sessions are bound to."""

    client_id: str
    issuer: str | None
    subject: str | None


def authorization_context(user: AuthenticatedUser) -> AuthorizationContext:
    """Return the identity of a user."""
    client_id, issuer, subject = principal_components(user.access_token)
    return AuthorizationContext(client_id=client_id, issuer=issuer, subject=subject)


class BearerAuthBackend(AuthenticationBackend):
    """Authentication by bearer token. With ``resource_server_url``, tokens for other resources are not valid."""

    def __init__(self, token_verifier: TokenVerifier, *, resource_server_url: AnyHttpUrl | None = None) -> None:
        self.token_verifier = token_verifier
        self.resource_server_url = resource_server_url

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, AuthenticatedUser] | None:
        """Return scopes and user of a request, or None without a valid token."""
        header = next((value for name, value in conn.headers.items() if name.lower() == "authorization"), "")
        if header[:7].lower() != "bearer ":
            return None
        try:
            found = await self.token_verifier.verify_token(header[7:])
        except RecursionError:
            log.warning("a token was refused, because its JSON is nested too deep")
            return None
        if not found or (found.expires_at and found.expires_at < int(time.time())):
            return None
        if self.resource_server_url and not self._is_for_this_resource(found.resource):
            log.warning("a token for the resource %r was refused", found.resource)
            return None
        return AuthCredentials(found.scopes), AuthenticatedUser(found)

    def _is_for_this_resource(self, resource: str | None) -> bool:
        try:
            given = str(AnyHttpUrl(resource or ""))
        except ValidationError:
            return False
        return given.removesuffix("/") == str(self.resource_server_url).removesuffix("/")


class RequireAuthMiddleware:
    """Middleware that refuses requests without a valid token (401), or without a required scope (403)."""

    challenge_scopes: Sequence[str] = ()
    """Scopes that the challenge tells clients to request."""

    def __init__(
        self, app: Any, required_scopes: Sequence[str], resource_metadata_url: AnyHttpUrl | None = None
    ) -> None:
        self.app = app
        self.required_scopes = required_scopes
        self.resource_metadata_url = resource_metadata_url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not isinstance(scope.get("user"), AuthenticatedUser):
            await self._send_auth_error(send, 401, "invalid_token", "Authentication required")
            return
        granted = getattr(scope.get("auth"), "scopes", ())
        for required in self.required_scopes:
            if required not in granted:
                await self._send_auth_error(send, 403, "insufficient_scope", f"Required scope: {required}")
                return
        await self.app(scope, receive, send)

    async def _send_auth_error(self, send: Any, status_code: int, error: str, description: str) -> None:
        parameters = {"error": error, "error_description": description}
        body = json.dumps(parameters).encode()
        if self.challenge_scopes:
            parameters["scope"] = " ".join(self.challenge_scopes)
        if self.resource_metadata_url:
            parameters["resource_metadata"] = str(self.resource_metadata_url)
        challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"www-authenticate", challenge.encode()),
        ]
        await send({"type": "http.response.start", "status": status_code, "headers": headers})
        await send({"type": "http.response.body", "body": body})
