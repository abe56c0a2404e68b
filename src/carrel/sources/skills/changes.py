"""Change events of skills: the merged watches of several folders, mapped to the files that are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carrel.server.source import Change

if TYPE_CHECKING:
    from carrel.sources.folder.watch import Watch

__all__ = ["compare", "merge"]


async def merge(watches: Sequence[Watch]) -> AsyncIterator[Collection[Change]]:
    """Yield the batches of several watches. The first one is empty, and comes once all of them are listening.

    Raises:
        ConfigError: one of them cannot listen.
    """
    batches: asyncio.Queue[Collection[Change] | Exception | None] = asyncio.Queue(1)

    async def follow(watch: Watch) -> None:
        try:
            async for batch in watch:
                await batches.put(batch)
        except Exception as error:
            await batches.put(error)
        else:
            await batches.put(None)

    tasks = [asyncio.ensure_future(follow(watch)) for watch in watches]
    deaf = len(tasks)
    try:
        while True:
            batch = await batches.get()
            if batch is None:
                return
            if isinstance(batch, Exception):
                raise batch
            if deaf:
                deaf -= not batch
            if not deaf:
                yield batch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def compare(before: Mapping[str, Any], now: Mapping[str, Any], touched: Collection[Change]) -> list[Change]:
    """Return the changes of skill files, given their URIs and frontmatter before and now.

    ``touched`` has the changes of all files, whether or not they belong to skills.
    """
    changes = [Change("removed", uri) for uri in before if uri not in now]
    changes += [Change("created", uri) for uri, value in now.items() if uri not in before or before[uri] != value]
    changed = {change.uri for change in touched if change.uri in before and change.uri in now}
    return changes + [Change("changed", uri) for uri in changed if before[uri] == now[uri]]
