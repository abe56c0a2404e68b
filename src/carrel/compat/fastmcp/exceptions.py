"""Exceptions of the face of ``fastmcp``."""

from __future__ import annotations

import logging
from typing import Any

from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import INTERNAL_ERROR, INVALID_PARAMS

__all__ = [
    "AuthorizationError",
    "ClientError",
    "DisabledError",
    "FastMCPDeprecationWarning",
    "FastMCPError",
    "InsufficientScopeError",
    "InvalidSignature",
    "McpError",
    "NotFoundError",
    "PromptError",
    "ResourceError",
    "ResourceSecurityError",
    "ToolError",
    "ValidationError",
    "error_response",
    "to_mcp_error",
]


class FastMCPError(Exception):
    """Base class of errors whose message clients see as it is."""

    def __init__(self, *args: Any, log_level: int = logging.ERROR) -> None:
        super().__init__(*args)
        self.log_level = log_level


class ValidationError(FastMCPError):
    """Arguments or results are not valid."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool failed."""


class PromptError(FastMCPError):
    """A prompt failed."""


class AuthorizationError(FastMCPError):
    """Access is denied."""


class InsufficientScopeError(AuthorizationError):
    """The token lacks ``required_scopes``."""

    def __init__(self, required_scopes: list[str], *, message: str | None = None) -> None:
        self.required_scopes = list(required_scopes)
        super().__init__(message or f"Insufficient scope. Required: {', '.join(required_scopes) or '(unknown)'}")


class InvalidSignature(Exception):
    """The signature of a function cannot be used."""


class ClientError(Exception):
    """A client failed."""


class FastMCPDeprecationWarning(DeprecationWarning):
    """Something that a later version of ``fastmcp`` removes. Carrel does not warn."""


class NotFoundError(Exception):
    """There is no such tool, resource or prompt."""


class DisabledError(Exception):
    """The tool, resource or prompt is disabled."""


class ResourceSecurityError(NotFoundError):
    """A variable of a resource template is not safe. Clients see a resource that does not exist."""


def error_response(code: int, message: str) -> McpError:
    """Return an error response, which is an ``MCPError`` in version 4."""
    if fastmcp_generation() < 4:
        return McpError(code=code, message=message)
    from carrel.compat.mcp2.shared.exceptions import MCPError  # which loads the types of ``mcp`` 2

    return MCPError(code, message)


def to_mcp_error(exc: Exception, *, default_code: int = INTERNAL_ERROR) -> McpError:
    """Return the error response of an exception: invalid parameters, or the default code."""
    if isinstance(exc, McpError):
        return exc
    invalid = isinstance(exc, NotFoundError | DisabledError | ValidationError)
    return error_response(INVALID_PARAMS if invalid else default_code, str(exc))
