"""Requests that handlers of mirrored servers answer: their HTTP request, and the error response of a handler."""

from __future__ import annotations

import sys
from typing import Any

from carrel.errors import ProtocolError
from carrel.protocol.server import Call

__all__ = ["HandlerError", "http_request", "scope_of"]


class HandlerError(ProtocolError):
    """Error response with the code, message and data that a handler gave."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


def scope_of(call: Call) -> dict[str, Any] | None:
    """Return an ASGI scope with the headers of a request that Carrel's own transport has received; None for others."""
    if not call.headers:
        return None
    headers = [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in call.headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    return scope | _identity()


def _identity() -> dict[str, Any]:
    """Return the members of a scope that name the user, as the authentication of Starlette adds them."""
    module = sys.modules.get("carrel.compat.mcp.server.auth.middleware.auth_context")
    user = None if module is None else module.auth_context_var.get()
    if user is None:
        return {}
    from starlette.authentication import AuthCredentials  # only with a user, who is one of Starlette

    return {"user": user, "auth": AuthCredentials(user.scopes)}


def http_request(scope: Any) -> Any:
    from starlette.requests import Request  # only over HTTP, where it is installed

    return Request(scope)
