"""Authorization of components: checks that decide who sees and uses a tool, a resource or a prompt."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carrel.compat.fastmcp.exceptions import AuthorizationError
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.compat.fastmcp.server.auth.auth import AccessToken

__all__ = ["AuthCheck", "AuthContext", "require_roles", "require_scopes", "restrict_tag", "run_auth_checks"]

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


def require_roles(*roles: str, extract: Callable[[dict[str, Any]], Iterable[str]]) -> AuthCheck:
    """Return a check that the token has all of the roles, which a function reads from its claims.

    Raises:
        ValueError: there are no roles, so the check would admit everyone.
    """
    if not roles:
        raise ValueError("require_roles() needs at least one role; a check with no roles would admit everyone")

    def check(context: AuthContext) -> bool:
        if context.token is None:
            return False
        try:
            found = extract(context.token.claims)
            return set(roles).issubset([found] if isinstance(found, str) else found)
        except (KeyError, TypeError, IndexError, AttributeError):
            return False

    return check


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
