"""Access token of the request that is being handled."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from carrel.compat.mcp.server.auth.provider import AccessToken

__all__ = ["AuthContextMiddleware", "auth_context_var", "get_access_token"]

auth_context_var: ContextVar[AuthenticatedUser | None] = ContextVar("auth_context", default=None)
"""User of the request; None without authorization."""


def get_access_token() -> AccessToken | None:
    """Return the access token of the request; None without authorization."""
    user = auth_context_var.get()
    return None if user is None else user.access_token


class AuthContextMiddleware:
    """Middleware that keeps the user of a request for ``get_access_token``, inside of the authentication."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        user = scope.get("user")
        token = auth_context_var.set(user if isinstance(user, AuthenticatedUser) else None)
        try:
            await self.app(scope, receive, send)
        finally:
            auth_context_var.reset(token)
