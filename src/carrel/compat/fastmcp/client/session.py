"""Session of a client of FastMCP: the session of ``mcp`` 1, with the errors of ``mcp`` 2 for programs of FastMCP 4."""

from __future__ import annotations

from pydantic import BaseModel

from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.client.session import ClientSession, converted
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.errors import RequestTimeout

__all__ = ["Session"]


class Session(ClientSession):
    """Session with a server. Enter it, call ``initialize``, then send requests."""

    def _error(self, error: Exception, request: type[BaseModel], timeout: float | None) -> Exception:
        found = converted(error, request, timeout)
        if fastmcp_generation() < 4 or not isinstance(found, McpError):
            return found
        from carrel.compat.mcp2.shared.exceptions import MCPError  # which loads the types of ``mcp`` 2
        from carrel.compat.mcp2.types.jsonrpc import REQUEST_TIMEOUT

        if isinstance(error, RequestTimeout):
            method = request.model_fields["method"].default
            return MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out after {timeout} seconds")
        return MCPError(found.error.code, found.error.message, found.error.data)
