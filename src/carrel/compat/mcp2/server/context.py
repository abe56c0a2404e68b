"""Context of a request, and middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias

from pydantic import BaseModel
from typing_extensions import TypeVar

from carrel.compat.mcp2.server.session import ServerSession
from carrel.compat.mcp2.shared.message import CloseSSEStreamCallback
from carrel.compat.mcp2.types.base import RequestParamsMeta
from carrel.compat.mcp2.types.jsonrpc import RequestId

__all__ = [
    "CallNext",
    "HandlerResult",
    "LifespanContextT",
    "LifespanT_co",
    "RequestT",
    "ServerMiddleware",
    "ServerRequestContext",
]

LifespanContextT = TypeVar("LifespanContextT", default=dict[str, Any])
LifespanT_co = TypeVar("LifespanT_co", default=Any, covariant=True)
RequestT = TypeVar("RequestT", default=Any)


@dataclass(kw_only=True)
class ServerRequestContext(Generic[LifespanContextT, RequestT]):
    """Context of a request. ``request`` is the HTTP request, None on stdio."""

    session: ServerSession
    lifespan_context: LifespanContextT
    protocol_version: str
    method: str
    params: Mapping[str, Any] | None = None
    request_id: RequestId | None = None
    meta: RequestParamsMeta | None = None
    request: RequestT | None = None
    close_sse_stream: CloseSSEStreamCallback | None = None
    close_standalone_sse_stream: CloseSSEStreamCallback | None = None


HandlerResult: TypeAlias = BaseModel | dict[str, Any] | None
CallNext: TypeAlias = Callable[[ServerRequestContext[Any, Any]], Awaitable[HandlerResult]]
L = TypeVar("L", covariant=True)


class ServerMiddleware(Protocol[L]):
    """Middleware around every message of a client: calls the rest of the chain, and returns a result."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a message."""
