"""Authorization of components: checks that decide who sees and uses a tool, a resource or a prompt."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carrel.compat.fastmcp.exceptions import AuthorizationError
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.compat.fastmcp.server.auth.auth import AccessToken

__all__ = ["AuthCheck", "AuthContext", "require_scopes", "restrict_tag", "run_auth_checks"]

log = Log("carrel.compat")


@dataclass
class AuthContext:
    """Input of an authorization check: the caller's access token, or None, and the component."""

    token: AccessToken | None
    component: Any

    @property
    def tool(self) -> Any:
        """The component, if it is a tool; otherwise None."""
        from carrel.compat.fastmcp.tools.tool import Tool

        return self.component if isinstance(self.component, Tool) else None


AuthCheck = Callable[[AuthContext], bool] | Callable[[AuthContext], Awaitable[bool]]


def _has(context: AuthContext, scopes: frozenset[str]) -> bool:
    return context.token is not None and scopes.issubset(context.token.scopes)


def require_scopes(*scopes: str) -> AuthCheck:
    """Return a check that the token has all of the scopes."""
    required = frozenset(scopes)
    return lambda context: _has(context, required)


def restrict_tag(tag: str, *, scopes: list[str]) -> AuthCheck:
    """Return a check that the token has all of the scopes, for components with a tag."""
    required = frozenset(scopes)
    return lambda context: tag not in context.component.tags or _has(context, required)


async def run_auth_checks(checks: AuthCheck | list[AuthCheck], ctx: AuthContext) -> bool:
    """Return whether all checks allow access. A check that fails with an exception denies access.

    Raises:
        AuthorizationError: a check raised it, to say why.
    """
    for check in checks if isinstance(checks, list) else [checks]:
        try:
            found: Any = check(ctx)
            if inspect.isawaitable(found):
                found = await found
        except AuthorizationError:
            raise
        except Exception:
            log.exception("an authorization check failed, access is denied")
            return False
        if not found:
            return False
    return True
