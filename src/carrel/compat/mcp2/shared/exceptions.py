"""Exceptions of the face of ``mcp`` 2."""

from __future__ import annotations

from typing import Any

from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.types.jsonrpc import INVALID_REQUEST, URL_ELICITATION_REQUIRED, ErrorData, JSONRPCError

__all__ = ["MCPDeprecationWarning", "MCPError", "NoBackChannelError", "UrlElicitationRequiredError"]


class MCPDeprecationWarning(UserWarning):
    """Warning for parts of the protocol that are deprecated; Python shows it by default."""


class MCPError(McpError):
    """Error response of the peer, or the one that a handler wants to be sent. ``error`` is its content.

    The mirror of FastMCP catches it as an error of ``mcp`` 1.
    """

    error: ErrorData

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        Exception.__init__(self, code, message, data)
        details: dict[str, Any] = {} if data is None else {"data": data}
        self.error = ErrorData(code=code, message=message, **details)

    @property
    def code(self) -> int:
        """The error code."""
        return self.error.code

    @property
    def message(self) -> str:
        """The message."""
        return self.error.message

    @property
    def data(self) -> Any:
        """More information; None without any."""
        return self.error.data

    @classmethod
    def from_jsonrpc_error(cls, error: JSONRPCError) -> MCPError:
        """Return the exception for an error response."""
        return cls.from_error_data(error.error)

    @classmethod
    def from_error_data(cls, error: ErrorData) -> MCPError:
        """Return the exception for the content of an error response."""
        return cls(code=error.code, message=error.message, data=error.data)

    def __str__(self) -> str:
        return self.message


class NoBackChannelError(MCPError):
    """A request to the client that nothing can carry, such as to a client of 2026-07-28."""

    def __init__(self, method: str) -> None:
        super().__init__(
            INVALID_REQUEST,
            f"Cannot send {method!r}: this transport context has no back-channel for server-initiated requests.",
        )
        self.method = method


class UrlElicitationRequiredError(MCPError):
    """Error response that pages have to be visited first."""

    def __init__(self, elicitations: list[types.ElicitRequestURLParams], message: str | None = None) -> None:
        self._elicitations = elicitations
        plural = "s" if len(elicitations) > 1 else ""
        data = {"elicitations": [each.model_dump(by_alias=True, exclude_none=True) for each in elicitations]}
        super().__init__(URL_ELICITATION_REQUIRED, message or f"URL elicitation{plural} required", data)

    @property
    def elicitations(self) -> list[types.ElicitRequestURLParams]:
        """The pages to visit."""
        return self._elicitations

    @classmethod
    def from_error(cls, error: ErrorData) -> UrlElicitationRequiredError:
        """Return the exception for the content of an error response.

        Raises:
            ValueError: it has another code.
        """
        if error.code != URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {URL_ELICITATION_REQUIRED}, got {error.code}")
        found = (error.data or {}).get("elicitations", [])
        return cls([types.ElicitRequestURLParams.model_validate(each) for each in found], error.message)
