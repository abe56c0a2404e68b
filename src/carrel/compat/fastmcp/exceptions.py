"""Exceptions of the face of ``fastmcp``."""

from __future__ import annotations

import logging
from typing import Any

from carrel.compat.mcp.shared.exceptions import McpError

__all__ = [
    "AuthorizationError",
    "ClientError",
    "DisabledError",
    "FastMCPDeprecationWarning",
    "FastMCPError",
    "InvalidSignature",
    "McpError",
    "NotFoundError",
    "PromptError",
    "ResourceError",
    "ToolError",
    "ValidationError",
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
