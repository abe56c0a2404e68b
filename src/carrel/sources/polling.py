"""Polling: detect changes by comparing snapshots, for systems without notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from typing import NamedTuple

from carrel.catalog.provider import Change
from carrel.errors import MCPError
from carrel.log import Log

__all__ = ["Polls", "Unlisted", "changes_between", "poll"]

log = Log("carrel.sources")

#: After errors, the pause between looks grows up to so many times the interval.
MAX_PAUSE = 32


class Unlisted(NamedTuple):
    """Fingerprint of a resource that is not listed, such as a directory. It only changes: no creation, no removal."""

    fingerprint: Hashable


def changes_between(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[Change]:
    """Return the changes between two looks, each a mapping of URIs to fingerprints that differ when the content does.

    An unlisted resource that appears has changed: a change between its subscription and the first look is not missed.
    """
    if before is after:
        return []
    was, now = ({uri for uri, fingerprint in look.items() if listed(fingerprint)} for look in (before, after))
    removed = [Change("removed", uri) for uri in before if uri in was and uri not in now]
    created = [Change("created", uri) for uri in after if uri in now and uri not in was]
    changed = [
        Change("changed", uri)
        for uri, fingerprint in after.items()
        if (uri not in before or before[uri] != fingerprint) and (uri in now) == (uri in was)
    ]
    return removed + created + changed


def listed(fingerprint: Hashable) -> bool:
    return not isinstance(fingerprint, Unlisted)


async def poll(
    look: Callable[[], Awaitable[Mapping[str, Hashable]]],
    interval: float,
    *,
    owner: str,
    wake: asyncio.Event | None = None,
) -> AsyncIterator[Collection[Change]]:
    """Yield the changes between looks that are ``interval`` seconds apart, as ``Provider.watch`` does.

    The first batch is empty, and comes after the first look. A look that fails with an ``MCPError`` or an ``OSError``
    is logged once for ``owner``, and tried again after pauses that grow; the first look that succeeds is logged, too.
    Setting ``wake`` ends a pause.
    """
    known: Mapping[str, Hashable] | None = None
    failures = 0
    wake = asyncio.Event() if wake is None else wake
    while True:
        wake.clear()
        try:
            found = await look()
        except (MCPError, OSError) as error:
            failures += 1
            (log.warning if failures == 1 else log.debug)("%s cannot be looked at for changes: %s", owner, error)
        else:
            if failures:
                log.warning("%s can be looked at for changes again", owner)
            failures = 0
            if known is None:
                yield ()
            elif changes := changes_between(known, found):
                yield changes
            known = found
        with suppress(TimeoutError):
            async with asyncio.timeout(interval * min(2**failures, MAX_PAUSE)):
                await wake.wait()


class Polls:
    """Polling watches of one source, whose looks are ``interval`` seconds apart."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._tasks: set[asyncio.Task[None]] = set()

    async def watch(
        self, look: Callable[[], Awaitable[Mapping[str, Hashable]]], owner: str
    ) -> AsyncIterator[Collection[Change]]:
        """Yield batches of changes, as ``poll`` does, until ``stop`` is called."""
        queue: asyncio.Queue[Collection[Change]] = asyncio.Queue(1)

        async def follow() -> None:
            async for batch in poll(look, self._interval, owner=owner):
                await queue.put(batch)

        task = asyncio.create_task(follow())
        self._tasks.add(task)
        waiting = asyncio.create_task(queue.get())
        try:
            while True:
                await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    break
                yield waiting.result()
                waiting = asyncio.create_task(queue.get())
            if not task.cancelled():
                task.result()
        finally:
            task.cancel()
            waiting.cancel()
            await asyncio.gather(task, waiting, return_exceptions=True)
            self._tasks.discard(task)

    async def stop(self) -> None:
        """End all watches."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
