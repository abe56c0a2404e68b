"""Timestamps in annotations."""

from __future__ import annotations

from datetime import UTC, datetime

from carrel.wire.base import Annotations

__all__ = ["modified_at"]


def modified_at(annotations: Annotations | None) -> float | None:
    """Return when a resource was modified, in seconds since 1970, or None. A time without a zone is in UTC.

    https://modelcontextprotocol.io/specification/2026-07-28/server/resources#annotations
    """
    if annotations is None or annotations.last_modified is None:
        return None
    try:
        time = datetime.fromisoformat(annotations.last_modified)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
