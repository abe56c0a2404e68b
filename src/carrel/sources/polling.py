"""Polling: detect changes by comparing snapshots, for systems without notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from typing import NamedTuple

from carrel.catalog.provider import Change
from carrel.errors import MCPError
from carrel.log import Log

__all__ = ["Unlisted", "changes_between", "poll"]

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
) -> AsyncGenerator[Collection[Change], None]:
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
