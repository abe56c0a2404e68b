"""Watch of a synchronous client: change notifications as an iterator."""

from __future__ import annotations

from collections.abc import Iterator

from carrel.client import watch as asynchronous
from carrel.client.watch import WatchEvent
from carrel.sync.loop import run

__all__ = ["Watch"]


class Watch:
    """Subscription to changes of resources and lists: an iterator of ``WatchEvent``, and a context manager.

    ``close``, in another thread too, ends the iteration.
    """

    def __init__(self, watch: asynchronous.Watch) -> None:
        self._watch = watch

    @property
    def refused(self) -> tuple[str, ...]:
        """URIs and names of lists whose subscription the server refused."""
        return self._watch.refused

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        async def step() -> WatchEvent | None:
            return await anext(self._watch, None)

        change = run(step())
        if change is None:
            raise StopIteration
        return change

    def start(self) -> None:
        """Start listening; return once the server has acknowledged the subscription. See ``Watch.start``."""
        run(self._watch.start())

    def close(self) -> None:
        """Stop listening, and end the iteration."""
        run(self._watch.close())
