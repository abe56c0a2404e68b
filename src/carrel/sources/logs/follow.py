"""Watch log files and the journal for changes. Each URI is reported at most once per interval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from carrel.catalog.provider import Change
from carrel.log import Log
from carrel.sources.folder.position import Parts
from carrel.sources.logs.journal import KERNEL, UNIT, Journal, environment
from carrel.sources.logs.location import LogFolder, LogLocation
from carrel.sources.logs.rotation import rotated
from carrel.sources.watches import Batches

if TYPE_CHECKING:
    from carrel.sources.folder.watch import FolderWatch

__all__ = ["Looks", "coalesced", "follow"]

log = Log("carrel.sources")

Kinds: TypeAlias = AsyncGenerator[Mapping[str, str], None]
"""Kinds of changes by the paths of logs. The first batch is empty, and is sent as soon as all later changes are
reported.
"""

Looks: TypeAlias = Callable[[LogLocation], Awaitable[Collection[str]]]
"""Returns the paths of the logs of a location."""

MAX_LINE = 65_536
PAUSE = 5.0  # seconds before journalctl is started again


def follow(location: LogLocation, look: Looks) -> Kinds:
    """Return the changes of a location."""
    return follow_journal(location) if isinstance(location, Journal) else follow_folder(location, look)


async def follow_folder(location: LogLocation, look: Looks) -> Kinds:
    """Yield changes of the logs in a folder. A rotation is a change of the log."""
    from carrel.sources.folder.watch import FolderWatch  # deferred import

    assert isinstance(location, LogFolder)
    names: dict[str, Parts] = {}

    def name(parts: Parts) -> str:
        text = "/".join(parts)
        names[text] = parts
        return text

    watch: FolderWatch = FolderWatch(location.folder.tree, location.folder.path, name, is_file=False)
    known: set[str] | None = None
    try:
        async for batch in watch:
            changes: dict[str, str] = {}
            for change in batch:
                parts = names.pop(change.uri, ())
                if parts:
                    changes["/".join((*parts[:-1], rotated(parts[-1]).log))] = "changed"
            if known is None or any(change.kind != "changed" for change in batch):
                now = set(await look(location))
                if known is not None:
                    changes = {path: kind for path, kind in changes.items() if path in now & known}
                    changes |= dict.fromkeys(now - known, "created") | dict.fromkeys(known - now, "removed")
                known = now
            yield changes
    finally:
        await watch.aclose()


async def follow_journal(location: Journal) -> Kinds:
    """Yield changes of the units of the journal."""
    yield {}
    while True:
        process = await asyncio.create_subprocess_exec(
            *location.follow(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(),
            limit=MAX_LINE,
        )
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    record = msgspec.json.decode(line, type=dict[str, object])
                    unit = KERNEL if record.get("_TRANSPORT") == "kernel" else record.get(UNIT)
                    if isinstance(unit, str):
                        yield {unit: "changed"}
        except ValueError:  # a record that is too long; the next one is read by a new process
            pass
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.sleep(PAUSE)


async def coalesced(batches: Batches, interval: float) -> AsyncGenerator[Collection[Change], None]:
    """Yield changes, in which each URI is reported as changed at most every ``interval`` seconds.

    Creations and removals are reported immediately.
    """
    loop = asyncio.get_running_loop()
    waiting: dict[str, Change] = {}
    due: dict[str, float] = {}  # when a URI may be reported again
    coming = asyncio.ensure_future(anext(aiter(batches), None))
    try:
        while True:
            first = min((due[uri] for uri in waiting), default=None)
            await asyncio.wait([coming], timeout=None if first is None else max(first - loop.time(), 0.0))
            if coming.done():
                batch = coming.result()
                if batch is None:
                    return
                coming = asyncio.ensure_future(anext(aiter(batches), None))
                waiting |= {
                    change.uri: change for change in batch if change.kind != "changed" or change.uri not in waiting
                }
                if not batch:
                    yield ()
            now = loop.time()
            due = {uri: at for uri, at in due.items() if at > now}
            ready = [uri for uri, change in waiting.items() if change.kind != "changed" or uri not in due]
            if ready:
                due |= dict.fromkeys(ready, now + interval)
                yield [waiting.pop(uri) for uri in ready]
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await batches.aclose()
