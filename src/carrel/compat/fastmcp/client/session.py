"""Session of a client of FastMCP: the session of ``mcp`` 1, with what ``mcp`` 2 adds for programs of FastMCP 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.client.session import ClientSession, converted
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.wire import model_of
from carrel.errors import RequestTimeout
from carrel.protocol.methods import RequestType
from carrel.wire.base import Result
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.compat.mcp2.client.extension import ResultClaim

__all__ = ["Session", "takes_claimed"]

M = TypeVar("M", bound=BaseModel)
#: Whether the caller takes results of tool calls that an extension adds.
takes_claimed: ContextVar[bool] = ContextVar("takes_claimed", default=False)


class Session(ClientSession):
    """Session with a server. Enter it, call ``initialize``, then send requests.

    ``extensions`` are the settings that it declares, and ``claims`` the types of results of tool calls that extensions
    add.
    """

    def __init__(
        self,
        *streams: Any,
        extensions: Mapping[str, dict[str, Any]] | None = None,
        claims: Sequence[ResultClaim[Any]] = (),
        **options: Any,
    ) -> None:
        super().__init__(*streams, **options)
        self._callbacks.extensions = dict(extensions or {})
        self._claims: dict[type[Result], ResultClaim[Any]] = {}
        self._call_result: type[Result] = CallToolResult
        if claims:
            from carrel.compat.mcp2.client.requests import claiming_result

            self._call_result, self._claims = claiming_result(claims)

    def _kind_of(self, row: RequestType) -> type[Result] | None:
        return self._call_result if self._claims and row.method == "tools/call" else None

    def _read(self, result: Any, result_type: type[M]) -> M:
        claim = self._claims.get(type(result))
        if claim is None:
            return super()._read(result, result_type)
        found: Any = model_of(result, claim.model)
        if takes_claimed.get():
            return found  # type: ignore[no-any-return]
        from carrel.compat.mcp2.client.extension import UnexpectedClaimedResult

        raise UnexpectedClaimedResult(found)

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
