"""Context of a request of the server, and the types of a session's callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from carrel.compat.mcp2.types.base import RequestParamsMeta
from carrel.compat.mcp2.types.jsonrpc import RequestId

__all__ = [
    "ClientRequestContext",
    "ElicitationFnT",
    "IncomingMessage",
    "ListRootsFnT",
    "LoggingFnT",
    "MessageHandlerFnT",
    "SamplingFnT",
]


@dataclass(kw_only=True)
class ClientRequestContext:
    """Context of a request of the server, for the callback that answers it."""

    session: Any
    request_id: RequestId
    meta: RequestParamsMeta | None = None


IncomingMessage: TypeAlias = Any
"""Notification of the server, or an exception."""
SamplingFnT: TypeAlias = Callable[[ClientRequestContext, Any], Awaitable[Any]]
ElicitationFnT: TypeAlias = Callable[[ClientRequestContext, Any], Awaitable[Any]]
ListRootsFnT: TypeAlias = Callable[[ClientRequestContext], Awaitable[Any]]
LoggingFnT: TypeAlias = Callable[[Any], Awaitable[None]]
MessageHandlerFnT: TypeAlias = Callable[[IncomingMessage], Awaitable[None]]
