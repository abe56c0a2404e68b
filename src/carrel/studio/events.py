"""Events of the stream: numbered, merged by subject, and sent in a few frames a second."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakSet

import msgspec

from carrel.studio.api import PageEvent

__all__ = ["PageEvents"]

#: Number of events that are kept for a stream that has been interrupted.
KEPT = 1000
#: Seconds between two frames, and until a comment keeps an idle stream open.
PAUSE, IDLE = 0.25, 15.0


class PageEvents:
    """Log of the last events for the page, and the streams that follow it."""

    def __init__(self) -> None:
        self.seq = 0
        """Number of the last event."""
        self._kept: deque[PageEvent] = deque(maxlen=KEPT)
        self._streams: WeakSet[asyncio.Event] = WeakSet()
        self._ended = False

    def put(self, **event: Any) -> None:
        """Add an event with the next number."""
        self.seq += 1
        self._kept.append(PageEvent(seq=self.seq, **event))
        for news in self._streams:
            news.set()

    def end(self) -> None:
        """End all streams."""
        self._ended = True
        for news in self._streams:
            news.set()

    async def stream(self, since: int) -> AsyncIterator[bytes]:
        """Yield the frames of a stream (server-sent events) that continues after the event ``since``.

        If events after ``since`` are no longer kept, the first event is a ``reset``.
        """
        news = asyncio.Event()
        self._streams.add(news)
        yield b": ready\n\n"
        while not self._ended:
            events = self._after(since)
            since = self.seq
            if events:
                yield b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
                await asyncio.sleep(PAUSE)
            news.clear()
            if since == self.seq and not self._ended:
                try:
                    async with asyncio.timeout(IDLE):
                        await news.wait()
                except TimeoutError:
                    yield b": idle\n\n"

    def _after(self, since: int) -> list[PageEvent]:
        if since == self.seq:
            return []
        first = self._kept[0].seq if self._kept else self.seq + 1
        if since > self.seq or since + 1 < first:
            return [PageEvent(seq=self.seq, type="reset")]
        newest = {event.subject: event for event in self._kept if event.seq > since}
        return sorted(newest.values(), key=lambda event: event.seq)
