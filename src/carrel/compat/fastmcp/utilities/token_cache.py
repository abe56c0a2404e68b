"""Cache of verified tokens."""

from __future__ import annotations

import time
from hashlib import sha256

from carrel.compat.fastmcp.server.auth.auth import AccessToken

__all__ = ["TokenCache"]

MAX_TOKENS = 10_000


class TokenCache:
    """Cache of verified tokens, by their digest. Without ``ttl_seconds`` it keeps nothing.

    Raises:
        ValueError: a number is negative.
    """

    def __init__(self, *, ttl_seconds: int | None = None, max_size: int | None = None) -> None:
        self._ttl = ttl_seconds or 0
        self._max_size = MAX_TOKENS if max_size is None else max_size
        if self._ttl < 0 or self._max_size < 0:
            raise ValueError("cache_ttl_seconds and max_cache_size must be non-negative")
        self._entries: dict[str, tuple[float, AccessToken]] = {}

    @property
    def enabled(self) -> bool:
        """Whether anything is kept."""
        return self._ttl > 0 and self._max_size > 0

    def get(self, token: str) -> tuple[bool, AccessToken | None]:
        """Return whether a token is in the cache, and a copy of it."""
        key = _digest(token)
        found = self._entries.get(key)
        if found is None:
            return False, None
        until, access = found
        if until <= time.time():
            del self._entries[key]
            return False, None
        return True, access.model_copy(deep=True)

    def set(self, token: str, result: AccessToken) -> None:
        """Keep a token until it expires, at most for the configured time."""
        if not self.enabled:
            return
        until = time.time() + self._ttl
        if result.expires_at is not None:
            until = min(until, result.expires_at)
        if len(self._entries) >= self._max_size:
            self._entries.pop(next(iter(self._entries)))
        self._entries[_digest(token)] = until, result.model_copy(deep=True)


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
