"""Event store of Streamable HTTP. Carrel keeps events itself: a store is accepted, and has no effect."""

from __future__ import annotations

from typing import Any

__all__ = ["EventEntry", "EventStore", "StreamEventList"]


class EventStore:
    """Settings of a store of events."""

    def __init__(self, storage: Any = None, max_events_per_stream: int = 100, ttl: int | None = 3600) -> None:
        self.storage, self.max_events_per_stream, self.ttl = storage, max_events_per_stream, ttl


EventEntry = StreamEventList = dict[str, Any]
