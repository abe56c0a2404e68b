"""Names of ``mcp.shared.session`` that programs annotate with."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

__all__ = ["BaseSession", "ProgressFnT", "RequestResponder"]

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class ProgressFnT(Protocol):
    """Callback for progress notifications."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Handle a progress notification."""


class RequestResponder(Generic[RequestT, ResultT]):
    """Request of the peer. Message handlers get none: callbacks of the session answer requests."""

    request: RequestT


class BaseSession:
    """Base of sessions, for annotations."""

    def __class_getitem__(cls, parameters: Any) -> type[BaseSession]:
        return cls
