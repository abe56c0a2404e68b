"""Freshness hints of results (2026-07-28)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from carrel.compat.mcp2.types.base import CacheableResult
from carrel.compat.mcp2.types.kinds import CACHEABLE_METHODS, CacheableMethod

__all__ = ["CACHEABLE_METHODS", "CacheHint", "CacheableMethod", "apply_cache_hint", "validate_cache_hints"]

R = TypeVar("R", bound=CacheableResult)


@dataclass(frozen=True, slots=True)
class CacheHint:
    """How many milliseconds a result is fresh, and whether caches may share it between users."""

    ttl_ms: int = 0
    scope: Literal["public", "private"] = "private"

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError(f"ttl_ms must be >= 0, got {self.ttl_ms}")
        if self.scope not in ("public", "private"):
            raise ValueError(f"scope must be 'public' or 'private', got {self.scope!r}")


def apply_cache_hint(result: R, hint: CacheHint) -> R:
    """Return a result with the hint in the fields that its handler did not set."""
    hints = {"ttl_ms": hint.ttl_ms, "cache_scope": hint.scope}
    return result.model_copy(update={name: hints[name] for name in hints.keys() - result.model_fields_set})


def validate_cache_hints(cache_hints: Mapping[Any, Any] | None) -> dict[str, CacheHint]:
    """Return hints by method, after a check.

    Raises:
        ValueError: the results of a method cannot be cached.
        TypeError: a hint is no ``CacheHint``.
    """
    given = dict(cache_hints or {})
    unknown = ", ".join(sorted(repr(method) for method in given if method not in CACHEABLE_METHODS))
    if unknown:
        raise ValueError(f"cache_hints keys must be cacheable methods (see CacheableMethod); got: {unknown}")
    for method, hint in given.items():
        if not isinstance(hint, CacheHint):
            raise TypeError(f"cache_hints[{method!r}] must be a CacheHint, got {type(hint).__name__}")
    return given
