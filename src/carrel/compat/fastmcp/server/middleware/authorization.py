"""Middleware that authorizes requests: checks for all tools, resources and prompts of a server."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.exceptions import AuthorizationError, NotFoundError
from carrel.compat.fastmcp.server.auth.access import also_checking
from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.fastmcp.utilities.authorization import AuthCheck

__all__ = ["AuthMiddleware"]

#: Kind of component of each request, and the parameter that names it.
NAMES = {"tools/call": ("tool", "name"), "resources/read": ("resource", "uri"), "prompts/get": ("prompt", "name")}


class AuthMiddleware(Middleware):
    """Middleware with checks that decide who sees and uses each component, in whichever version is used."""

    def __init__(self, auth: AuthCheck | list[AuthCheck]) -> None:
        self.auth = auth

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request with the checks.

        Raises:
            AuthorizationError: the component does not exist, or the caller may not use it.
        """
        with also_checking(self.auth):
            try:
                return await call_next(context)
            except NotFoundError:
                kind, member = NAMES.get(context.method or "", ("component", "name"))
                name = getattr(context.message, member, "")
                raise AuthorizationError(
                    f"Authorization failed for {kind} '{name}': not found or not authorized"
                ) from None
