"""Middleware that limits the rate of requests, for all clients or for each."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import ErrorData

__all__ = [
    "RateLimitError",
    "RateLimitingMiddleware",
    "SlidingWindowRateLimiter",
    "SlidingWindowRateLimitingMiddleware",
    "TokenBucketRateLimiter",
]

MAX_CLIENTS = 10_000


class RateLimitError(McpError):
    """Error response that there are too many requests."""

    def __init__(self, message: str = "Rate limit exceeded") -> None:
        super().__init__(ErrorData(code=-32000, message=message))


class TokenBucketRateLimiter:
    """Limit of requests per second, with bursts up to ``capacity``."""

    def __init__(self, capacity: int, refill_rate: float) -> None:
        self.capacity, self.refill_rate = capacity, refill_rate
        self.tokens: float = capacity
        self.last_refill = time.time()

    async def consume(self, tokens: int = 1) -> bool:
        """Take tokens, and return whether there were enough of them."""
        now = time.time()
        self.tokens = min(self.capacity, self.tokens + (now - self.last_refill) * self.refill_rate)
        self.last_refill = now
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True


class SlidingWindowRateLimiter:
    """Limit of requests within the last seconds."""

    def __init__(self, max_requests: int, window_seconds: int) -> None:
        self.max_requests, self.window_seconds = max_requests, window_seconds
        self.requests: deque[float] = deque()

    async def is_allowed(self) -> bool:
        """Count a request, and return whether it is within the limit."""
        now = time.time()
        while self.requests and self.requests[0] < now - self.window_seconds:
            self.requests.popleft()
        if len(self.requests) >= self.max_requests:
            return False
        self.requests.append(now)
        return True


class Limiting(Middleware):
    """Middleware with a limiter for each client, of which the first ones are forgotten when there are too many."""

    get_client_id: Callable[[Any], Any] | None = None

    def __init__(self) -> None:
        self.limiters: dict[str, Any] = {}

    def _make(self) -> Any:
        raise NotImplementedError

    async def _get_client_identifier(self, context: Any) -> str:
        if self.get_client_id is None:
            return "global"
        found = self.get_client_id(context)
        return str(await found if inspect.isawaitable(found) else found)

    async def _limiter(self, context: Any) -> tuple[str, Any]:
        client = await self._get_client_identifier(context)
        if client not in self.limiters:
            if len(self.limiters) >= MAX_CLIENTS:
                del self.limiters[next(iter(self.limiters))]
            self.limiters[client] = self._make()
        return client, self.limiters[client]


class RateLimitingMiddleware(Limiting):
    """Middleware that limits requests per second."""

    def __init__(
        self,
        max_requests_per_second: float = 10.0,
        burst_capacity: int | None = None,
        get_client_id: Callable[[Any], Any] | None = None,
        global_limit: bool = False,
    ) -> None:
        super().__init__()
        self.max_requests_per_second = max_requests_per_second
        self.burst_capacity = burst_capacity or int(max_requests_per_second * 2)
        self.get_client_id = get_client_id
        self.global_limit = global_limit
        if global_limit:
            self.global_limiter = self._make()

    def _make(self) -> TokenBucketRateLimiter:
        return TokenBucketRateLimiter(self.burst_capacity, self.max_requests_per_second)

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        if self.global_limit:
            if not await self.global_limiter.consume():
                raise RateLimitError("Global rate limit exceeded")
        else:
            client, limiter = await self._limiter(context)
            if not await limiter.consume():
                raise RateLimitError(f"Rate limit exceeded for client: {client}")
        return await call_next(context)


class SlidingWindowRateLimitingMiddleware(Limiting):
    """Middleware that limits requests within the last minutes."""

    def __init__(
        self, max_requests: int, window_minutes: int = 1, get_client_id: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__()
        self.max_requests = max_requests
        self.window_seconds = window_minutes * 60
        self.get_client_id = get_client_id

    def _make(self) -> SlidingWindowRateLimiter:
        return SlidingWindowRateLimiter(self.max_requests, self.window_seconds)

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        client, limiter = await self._limiter(context)
        if not await limiter.is_allowed():
            raise RateLimitError(
                f"Rate limit exceeded: {self.max_requests} requests per {self.window_seconds // 60} minutes "
                f"for client: {client}"
            )
        return await call_next(context)
