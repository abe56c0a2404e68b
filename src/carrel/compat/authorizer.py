"""Authorizer of requests that the middleware of a program has authenticated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.compat.mcp.server.auth.middleware.auth_context import auth_context_var
from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse, Principal
from carrel.protocol.server import Call, ClientBatch
from carrel.transports.server.http_request import Headers
from carrel.transports.server.route import Route

__all__ = ["UserAuthorizer", "principal_of"]


class UserAuthorizer:
    """Authorizer that takes the user of the ASGI scope. Sessions are bound to the user, if there is one.

    Middleware around the endpoint decides who gets in: ``RequireAuthMiddleware``, or one of the program.
    Implements ``authorizer.Authorizer``.
    """

    def document(self, scope: dict[str, Any], path: str) -> bytes | HTTPErrorResponse | None:
        """Return None: the program has a route for metadata."""
        return None

    def routes(self, path: str) -> Sequence[Route]:
        """Return no routes: they are routes of the program."""
        return ()

    async def identify(
        self, scope: dict[str, Any], headers: Headers, path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse | None:
        """Return the user as a caller, or None without one. The token is removed from ``headers``."""
        headers.pop(b"authorization", None)
        user = scope.get("user")
        if not isinstance(user, AuthenticatedUser):
            return None
        auth_context_var.set(user)
        return AuthenticatedCaller(principal_of(user))

    def permit(self, caller: AuthenticatedCaller, event: Call | ClientBatch) -> HTTPErrorResponse | None:
        """Permit every call: components of the program check scopes."""
        return None

    async def stop(self) -> None:
        """Do nothing: there are no connections."""


def principal_of(user: AuthenticatedUser) -> Principal:
    """Return the principal of a user: the resource owner, or the client if the verifier does not name an owner."""
    token, identity = user.access_token, authorization_context(user)
    return Principal(
        subject=identity["subject"] or identity["client_id"],
        issuer=identity["issuer"] or "",
        client=identity["client_id"],
        scopes=frozenset(token.scopes),
        audience=frozenset([token.resource] if token.resource else []),
        expires=token.expires_at,
        claims=token.claims or {},
    )
