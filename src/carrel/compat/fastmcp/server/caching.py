"""Freshness hints of a server's results (2026-07-28)."""

from __future__ import annotations

from typing import Literal

from carrel.compat.mcp2.server.caching import CACHEABLE_METHODS, CacheHint

__all__ = ["build_cache_hints"]


def build_cache_hints(
    cache_ttl: int | None, cache_scope: Literal["public", "private"] | None
) -> dict[str, CacheHint] | None:
    """Return the hint of each method with cacheable results, or None without a lifetime in seconds.

    Raises:
        ValueError: the lifetime is not positive, or there is only a scope.
    """
    if cache_ttl is None:
        if cache_scope is not None:
            raise ValueError("cache_scope requires cache_ttl")
        return None
    if cache_ttl <= 0:
        raise ValueError("cache_ttl must be a positive integer, in seconds")
    hint = CacheHint(cache_ttl * 1000, cache_scope or "private")
    return dict.fromkeys(sorted(CACHEABLE_METHODS), hint)
