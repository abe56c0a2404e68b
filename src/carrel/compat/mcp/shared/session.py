"""Requests of a peer, and names that programs annotate with."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import anyio

from carrel.compat.mcp.shared.message import SessionMessage
from carrel.compat.mcp.types.base import ErrorData, RequestId

__all__ = ["BaseSession", "ProgressFnT", "RequestId", "RequestResponder", "SessionMessage"]

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class ProgressFnT(Protocol):
    """Callback for progress notifications."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Handle a progress notification."""


class RequestResponder(Generic[RequestT, ResultT]):
    """Request of the peer, to be answered inside of ``with responder``. The peer may cancel it."""

    def __init__(
        self,
        request_id: RequestId,
        request_meta: Any,
        request: RequestT,
        session: Any,
        on_complete: Callable[[Any], Any],
        message_metadata: Any = None,
    ) -> None:
        self.request_id = request_id
        self.request_meta = request_meta
        self.request = request
        self.message_metadata = message_metadata
        self._session = session
        self._on_complete = on_complete
        self._is_completed = False
        self._scope: anyio.CancelScope | None = None
        self._is_cancelled = False

    def __enter__(self) -> RequestResponder[RequestT, ResultT]:
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._scope is not None
        if self._is_completed:
            self._on_complete(self)
        return self._scope.__exit__(kind, error, trace)

    async def respond(self, response: Any) -> None:
        """Send the response: a result, or ``ErrorData``.

        Raises:
            RuntimeError: the responder was not entered, or has responded already.
        """
        if self._scope is None or self._is_completed:
            raise RuntimeError("RequestResponder must be used as a context manager, and responds once")
        self._is_completed = True
        await self._session._send_response(request_id=self.request_id, response=response)

    async def cancel(self) -> None:
        """Cancel the block in which the request is answered, and respond that it was cancelled."""
        self._is_cancelled = self._is_completed = True
        if self._scope is not None:
            self._scope.cancel()
        self._on_complete(self)
        cancelled = ErrorData(code=0, message="Request cancelled")
        await self._session._send_response(request_id=self.request_id, response=cancelled)

    @property
    def in_flight(self) -> bool:
        """Whether the request has no response yet."""
        return not self._is_completed

    @property
    def cancelled(self) -> bool:
        """Whether the peer has cancelled the request."""
        return self._is_cancelled


class BaseSession:
    """Base of sessions, for annotations."""

    def __class_getitem__(cls, parameters: Any) -> type[BaseSession]:
        return cls
