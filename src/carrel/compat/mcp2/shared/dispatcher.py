"""Types of dispatchers, for annotations: Carrel's transports dispatch by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypedDict

from carrel.compat.mcp.shared.session import ProgressFnT
from carrel.compat.mcp2.types.jsonrpc import RequestId

__all__ = ["CallOptions", "DispatchContext", "OnNotify", "OnNotifyIntercept", "OnRequest", "Outbound", "ProgressFnT"]


class CallOptions(TypedDict, total=False):
    """Options of one request."""

    request_id: RequestId
    timeout: float
    cancel_on_abandon: bool
    on_progress: ProgressFnT
    resumption_token: str
    on_resumption_token: Callable[[str], Awaitable[None]]
    headers: dict[str, str]


class Outbound(Protocol):
    """Sender of requests and notifications."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request, and return its result."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification."""


DispatchContext: TypeAlias = Any
OnRequest: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]
OnNotify: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[None]]
OnNotifyIntercept: TypeAlias = Callable[[str, Mapping[str, Any] | None], bool]
