"""Responses to requests without a valid token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.auth.middleware import bearer_auth

__all__ = ["RequireAuthMiddleware"]

#: Description of an invalid token, for developers of clients.
REJECTED = (
    "The bearer token is invalid, expired or unknown to this server. To resolve: clear authentication tokens in the "
    "client and reconnect; clients then automatically re-register and authorize."
)


def _is_credential(name: bytes, value: bytes) -> bool:
    """Return whether a header has credentials: a bearer token, or any in version 3."""
    return name.lower() == b"authorization" and (fastmcp_generation() < 4 or value[:7].lower() == b"bearer ")


class RequireAuthMiddleware(bearer_auth.RequireAuthMiddleware):
    """Middleware that refuses requests. Without any credentials, the challenge has no error (RFC 6750, section 3.1)."""

    def __init__(
        self,
        app: Any,
        required_scopes: Sequence[str],
        resource_metadata_url: Any = None,
        challenge_scopes: Sequence[str] = (),
    ) -> None:
        super().__init__(app, required_scopes, resource_metadata_url)
        self.challenge_scopes = challenge_scopes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif any(_is_credential(*header) for header in scope.get("headers", ())):
            await super().__call__(scope, receive, send)
        else:
            await self._send_missing_auth(send)

    async def _send_missing_auth(self, send: Any) -> None:
        url = self.resource_metadata_url
        parts = [f'scope="{" ".join(self.challenge_scopes)}"'] if self.challenge_scopes else []
        parts += [f'resource_metadata="{url}"'] if url else []
        challenge = f"Bearer {', '.join(parts)}".rstrip()
        headers = [(b"content-length", b"0"), (b"www-authenticate", challenge.encode())]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _send_auth_error(self, send: Any, status_code: int, error: str, description: str) -> None:
        said = REJECTED if error == "invalid_token" else description
        await super()._send_auth_error(send, status_code, error, said)
