"""Observation of the calls of a server: each observer is told of each response, with its duration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING

from carrel.awaitables import MaybeAwaitable
from carrel.errors import ServerUnavailable
from carrel.protocol.server import ErrorResponse

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.observer import Observer, RejectedRequest
    from carrel.protocol.server import Call, Reply
    from carrel.server.dispatch import Dispatch

__all__ = ["Observation"]


class Observation:
    """Dispatcher of requests that tells observers of them. Without observers, the dispatcher is used directly."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._observers: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> None:
        """Add an observer."""
        self._observers = (*self._observers, observer)

    def answer(self, call: Call, channel: Channel) -> MaybeAwaitable[Reply]:
        """Handle a request as ``Dispatch.answer`` does."""
        start = perf_counter()
        try:
            for observer in self._observers:
                observer.admit(call)
        except ServerUnavailable as error:
            reply: MaybeAwaitable[Reply] = ErrorResponse(call.connection.reject(call, error).reply, 503)
        else:
            reply = self._dispatch.answer(call, channel)
        if isinstance(reply, bytes | ErrorResponse):
            self._notify(call, reply, perf_counter() - start)
            return reply
        if call.request.endless:
            self._notify(call, b"", 0.0)
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: self._notify(call, reply_of(done), perf_counter() - start))
            return reply
        return self._answer_later(call, reply, start)

    async def _answer_later(self, call: Call, pending: Awaitable[Reply], start: float) -> Reply:
        reply: Reply | None = None
        try:
            reply = await pending
        finally:
            self._notify(call, reply, perf_counter() - start)
        return reply

    def refuse(self, call: Call, error: BaseException) -> ErrorResponse:
        """Reject a call that is not handled."""
        reply = call.connection.reject(call, error)
        self._notify(call, reply, 0.0)
        return reply

    def rejected(self, response: ErrorResponse) -> None:
        """Tell the observers of a request of an unknown method or with invalid parameters."""
        if response.call is not None:
            self._notify(response.call, response, 0.0)

    def http_rejected(self, request: RejectedRequest) -> None:
        """Tell the observers of a request that the HTTP transport has refused."""
        for observer in self._observers:
            observer.http_rejected(request)

    def _notify(self, call: Call, reply: Reply | None, seconds: float) -> None:
        for observer in self._observers:
            observer.answered(call, reply, seconds)


def reply_of(done: asyncio.Future[Reply]) -> Reply | None:
    """Return the result of a future, or None if it was cancelled or has an error."""
    return None if done.cancelled() or done.exception() is not None else done.result()
