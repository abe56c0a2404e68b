"""Authorizers of requests that the middleware of a program authenticates."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from carrel.compat.mcp.server.auth.middleware.auth_context import auth_context_var
from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from carrel.compat.serving import Guarded, receive_nothing
from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse, Principal
from carrel.protocol.server import Call, ClientBatch
from carrel.transports.server.http_request import Headers
from carrel.transports.server.route import Route

__all__ = ["ProgramAuthorizer", "UserAuthorizer", "principal_of"]


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


class ProgramAuthorizer(UserAuthorizer):
    """Authorizer with the middleware and the routes of a program, for a command that serves the program's server.

    ``guard`` returns the authorization of the endpoint at a path. Implements ``authorizer.Authorizer``.
    """

    def __init__(self, guard: Callable[[str], Guarded | None]) -> None:
        self._guard = cache(guard)

    def routes(self, path: str) -> Sequence[Route]:
        """Return the routes of the program's authorization, such as its metadata."""
        guarded = self._guard(path)
        found = () if guarded is None else guarded.routes
        return [
            Route(path=each.path, methods=frozenset(each.methods or ("GET", "POST")) - {"OPTIONS"}, asgi=each.app)
            for each in found
        ]

    async def identify(
        self, scope: dict[str, Any], headers: Headers, path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse | None:
        """Return the user that the middleware of the program finds, or its refusal."""
        guarded = self._guard(path)
        if guarded is None:
            return await super().identify(scope, headers, path)
        passed: list[dict[str, Any]] = []
        sent: list[dict[str, Any]] = []

        async def endpoint(scope: dict[str, Any], receive: Any, send: Any) -> None:
            passed.append(scope)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await guarded.wrap(endpoint)({**scope}, receive_nothing, send)
        if passed:
            return await super().identify(passed[0], headers, path)
        challenges = [pair for pair in sent[0]["headers"] if pair[0].lower() == b"www-authenticate"]
        return HTTPErrorResponse(sent[0]["status"], _description(sent), challenges)


def _description(sent: list[dict[str, Any]]) -> str:
    """Return the description of the error in a refusal."""
    try:
        found = json.loads(b"".join(message.get("body", b"") for message in sent))
        return str(found["error_description"])
    except (ValueError, KeyError, TypeError):
        return "the program refuses the request"


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
