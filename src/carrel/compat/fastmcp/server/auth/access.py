"""Access of callers to tools, resources and prompts: the checks of components and of middleware."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from carrel.compat.fastmcp.exceptions import AuthorizationError
from carrel.compat.fastmcp.server.dependencies import get_access_token, get_http_request
from carrel.compat.fastmcp.utilities.authorization import AuthContext, run_auth_checks

__all__ = ["Authorized", "also_checking", "current_transport", "is_authorized"]

current_transport: ContextVar[str | None] = ContextVar("current_transport", default=None)
"""The transport of the server that runs in this task; set for stdio, whose client is the user of this machine."""

_more: ContextVar[tuple[Any, ...]] = ContextVar("more_checks", default=())


@contextmanager
def also_checking(checks: Any) -> Iterator[None]:
    """Apply checks to every component that is listed or used within the block."""
    token = _more.set((*_more.get(), *_list(checks)))
    try:
        yield
    finally:
        _more.reset(token)


async def is_authorized(component: Any) -> bool:
    """Return whether the caller may see and use a component. On stdio, the caller may."""
    checks = [*_list(getattr(component, "auth", None)), *_more.get()]
    if not checks or (current_transport.get() == "stdio" and not _is_http()):
        return True
    try:
        return await run_auth_checks(checks, AuthContext(get_access_token(), component))
    except AuthorizationError:
        return False


class Authorized:
    """Server whose components have checks."""

    async def _allows(self, component: Any) -> bool:
        """Return whether the caller may see and use a component."""
        return await is_authorized(component)


def _is_http() -> bool:
    try:
        get_http_request()
    except RuntimeError:
        return False
    return True


def _list(checks: Any) -> list[Any]:
    return list(checks) if isinstance(checks, list | tuple) else [] if checks is None else [checks]
