"""Context of a request, for its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from carrel.compat.mcp.types.base import RequestId, RequestParams

__all__ = ["LifespanContextT", "RequestContext", "RequestT", "SessionT"]

SessionT = TypeVar("SessionT", default=Any)
LifespanContextT = TypeVar("LifespanContextT", default=Any)
RequestT = TypeVar("RequestT", default=Any)


@dataclass
class RequestContext(Generic[SessionT, LifespanContextT, RequestT]):
    """Context of a request. ``request`` is the HTTP request, None on stdio.

    ``protocol_version`` is the revision; ``method`` and ``params`` are those of a request that the protocol does not
    have.
    """

    request_id: RequestId
    meta: RequestParams.Meta | None
    session: SessionT
    lifespan_context: LifespanContextT
    experimental: Any = None
    request: RequestT | None = None
    close_sse_stream: Callable[[], Awaitable[None]] | None = None
    close_standalone_sse_stream: Callable[[], Awaitable[None]] | None = None
    protocol_version: str | None = None
    method: str | None = None
    params: Mapping[str, Any] | None = None
