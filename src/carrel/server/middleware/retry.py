"""Retry: middleware that repeats requests after errors that may be temporary."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from carrel.errors import ProviderUnavailable, TransportError
from carrel.log import Log
from carrel.server.middleware.middleware import Middleware, Next, target_of

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["Retry"]

#: Errors that may be temporary.
TEMPORARY: tuple[type[Exception], ...] = (ConnectionError, TimeoutError, TransportError, ProviderUnavailable)
log = Log("carrel.retry")


class Retry(Middleware):
    """Middleware that repeats a request if it fails with one of ``errors``, at most ``attempts`` times in all.

    The delay before the second attempt is ``delay`` seconds, and doubles up to ``max_delay``; up to half of it is left
    off at random, so that clients do not retry at the same moment. Only requests without side effects are repeated:
    lists, reads, prompts and completion, not tool calls.
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        delay: float = 0.1,
        max_delay: float = 5.0,
        errors: tuple[type[Exception], ...] = TEMPORARY,
    ) -> None:
        if attempts < 1:
            raise ValueError("attempts must be 1 or more")
        self._attempts = attempts
        self._delay = delay
        self._max_delay = max_delay
        self._errors = errors

    async def on_request(self, call: Call, next: Next) -> Result:
        """Repeat a request that fails."""
        if not call.request.idempotent:
            return await next(call)
        for number in range(1, self._attempts):
            try:
                return await next(call)
            except self._errors as error:
                log.debug("%s %s failed (%s), attempt %s", call.method, target_of(call), error, number)
                delay = min(self._delay * 2 ** (number - 1), self._max_delay)
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311  (not for secrets)
        return await next(call)
