"""Polling: changes found by comparing what there is with what there was, for systems that notify of nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping

from carrel.catalog.provider import Change
from carrel.errors import MCPError
from carrel.log import Log

__all__ = ["changes_between", "poll"]

log = Log("carrel.sources")

#: After errors, the pause between looks grows up to so many times the interval.
MAX_PAUSE = 32


def changes_between(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[Change]:
    """Return the changes between two looks, each a mapping of URIs to stamps that differ when the content does."""
    removed = [Change("removed", uri) for uri in before if uri not in after]
    created = [Change("created", uri) for uri in after if uri not in before]
    changed = [Change("changed", uri) for uri, stamp in after.items() if uri in before and before[uri] != stamp]
    return removed + created + changed


async def poll(
    look: Callable[[], Awaitable[Mapping[str, Hashable]]], interval: float, *, owner: str
) -> AsyncIterator[Collection[Change]]:
    """Yield the changes between looks that are ``interval`` seconds apart, as ``Provider.watch`` does.

    The first batch is empty, and comes after the first look. A look that fails with an ``MCPError`` or an ``OSError``
    is logged once for ``owner``, and tried again after pauses that grow.
    """
    known: Mapping[str, Hashable] | None = None
    failures = 0
    while True:
        try:
            found = await look()
        except (MCPError, OSError) as error:
            failures += 1
            (log.warning if failures == 1 else log.debug)("%s cannot be looked at for changes: %s", owner, error)
        else:
            failures = 0
            if known is None:
                yield ()
            elif changes := changes_between(known, found):
                yield changes
            known = found
        await asyncio.sleep(interval * min(2**failures, MAX_PAUSE))
