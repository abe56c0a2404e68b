"""Store of the events of Streamable HTTP, for programs that use one. Carrel replays events from its own log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from carrel.compat.fastmcp.utilities.key_value import Collection, MemoryStore
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.streamable_http import EventMessage
from carrel.compat.mcp.types.base import JSONRPCMessage

__all__ = ["EventEntry", "EventStore", "SessionScopedEventStore", "StreamEventList"]

#: Number of locks of a store. Streams with the same lock wait for each other.
_LOCK_STRIPES = 64


class EventEntry(BaseModel):
    """Event of a stream. An event without a message only marks a position."""

    event_id: str
    stream_id: str
    message: dict[str, Any] | None = None


class StreamEventList(BaseModel):
    """Ids of the events of a stream, the oldest first."""

    event_ids: list[str]


class EventStore:
    """Store of events, in memory or in a store with the interface of ``key_value``.

    A stream keeps its last ``max_events_per_stream`` events, each for ``ttl`` seconds.
    """

    def __init__(self, storage: Any = None, max_events_per_stream: int = 100, ttl: int | None = 3600) -> None:
        self.storage, self.max_events_per_stream, self.ttl = storage, max_events_per_stream, ttl
        store = MemoryStore() if storage is None else storage
        self._event_store = Collection(store, "fastmcp_events", EventEntry)
        self._stream_store = Collection(store, "fastmcp_streams", StreamEventList)
        self._locks = [asyncio.Lock() for _ in range(_LOCK_STRIPES)]

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message, or None for a position, and return the id of the event."""
        entry = EventEntry(event_id=str(uuid.uuid4()), stream_id=stream_id)
        if message is not None:
            entry.message = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self._event_store.put(key=entry.event_id, value=entry, ttl=self.ttl)
        async with self._locks[hash(stream_id) % _LOCK_STRIPES]:
            stream = await self._stream_store.get(key=stream_id) or StreamEventList(event_ids=[])
            ids = [*stream.event_ids, entry.event_id]
            kept = StreamEventList(event_ids=ids[-self.max_events_per_stream :])
            await self._stream_store.put(key=stream_id, value=kept, ttl=self.ttl)
        for evicted in ids[: -self.max_events_per_stream]:
            await self._event_store.delete(key=evicted)
        return entry.event_id

    async def replay_events_after(
        self, last_event_id: str, send_callback: Callable[[EventMessage], Awaitable[None]]
    ) -> str | None:
        """Send the messages after an event, and return the id of their stream, or None if the event is unknown."""
        last = await self._event_store.get(key=last_event_id)
        stream = None if last is None else await self._stream_store.get(key=last.stream_id)
        if last is None or stream is None or last_event_id not in stream.event_ids:
            return None
        for event_id in stream.event_ids[stream.event_ids.index(last_event_id) + 1 :]:
            entry = await self._event_store.get(key=event_id)
            if entry is not None and entry.message is not None:
                await send_callback(EventMessage(_message(entry.message), event_id))
        return last.stream_id


class SessionScopedEventStore:
    """Events of one session in a store, which replays no events of other sessions."""

    def __init__(self, event_store: EventStore, session_id: str) -> None:
        self._store = event_store
        self._prefix = f"{session_id}:"

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message, or None for a position, and return the id of the event."""
        return await self._store.store_event(self._prefix + stream_id, message)

    async def replay_events_after(
        self, last_event_id: str, send_callback: Callable[[EventMessage], Awaitable[None]]
    ) -> str | None:
        """Send the messages after an event, and return the id of their stream, or None if the event is unknown."""
        last = await self._store._event_store.get(key=last_event_id)
        if last is None or not last.stream_id.startswith(self._prefix):
            return None
        found = await self._store.replay_events_after(last_event_id, send_callback)
        return None if found is None else found.removeprefix(self._prefix)


def _message(given: dict[str, Any]) -> Any:
    """Return the message of an event, as a model of the generation of the program."""
    if fastmcp_generation() < 4:
        return JSONRPCMessage.model_validate(given)
    from carrel.compat.mcp2.types.jsonrpc import jsonrpc_message_adapter  # which loads the types of ``mcp`` 2

    adapter: TypeAdapter[Any] = jsonrpc_message_adapter
    return adapter.validate_python(given)
