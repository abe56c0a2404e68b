"""Watch log files and the journal for changes. Each URI is reported at most once per interval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from carrel.catalog.provider import Change
from carrel.errors import MCPError
from carrel.log import Log
from carrel.sources.folder.position import Parts
from carrel.sources.logs.journal import KERNEL, UNIT, Journal, environment
from carrel.sources.logs.location import LogFolder, LogLocation
from carrel.sources.logs.rotation import rotated

if TYPE_CHECKING:
    from carrel.sources.folder.watch import FolderWatch

__all__ = ["Coalesced", "Looks", "follow", "pump"]

log = Log("carrel.sources")

Batches: TypeAlias = AsyncGenerator[Mapping[str, str], None]
"""Kinds of changes by the paths of logs. The first batch is empty, and is sent as soon as all later changes are
reported.
"""

Looks: TypeAlias = Callable[[LogLocation], Awaitable[Collection[str]]]
"""Returns the paths of the logs of a location."""

MAX_LINE = 65_536
PAUSE = 5.0  # seconds before journalctl is started again


def follow(location: LogLocation, look: Looks) -> Batches:
    """Return the changes of a location."""
    return follow_journal(location) if isinstance(location, Journal) else follow_folder(location, look)


async def follow_folder(location: LogLocation, look: Looks) -> Batches:
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


async def follow_journal(location: Journal) -> Batches:
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


class Coalesced:
    """Changes of several followers, in which each URI is reported as changed at most every ``interval`` seconds.

    Creations and removals are reported immediately.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._waiting: dict[str, str] = {}
        self._due: dict[str, float] = {}  # when a URI may be reported again
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def add(self, changes: Mapping[str, str]) -> None:
        """Add kinds of changes by their URIs."""
        for uri, kind in changes.items():
            if kind != "changed" or uri not in self._waiting:
                self._waiting[uri] = kind
        if changes:
            self._event.set()

    async def next(self) -> list[Change]:
        """Wait for changes that are due, and return them."""
        while True:
            now = self._loop.time()
            self._due = {uri: due for uri, due in self._due.items() if due > now}
            ready = [uri for uri, kind in self._waiting.items() if kind != "changed" or uri not in self._due]
            if ready:
                self._due |= dict.fromkeys(ready, now + self._interval)
                return [Change(self._waiting.pop(uri), uri) for uri in ready]  # type: ignore[arg-type]
            self._event.clear()
            first = min((self._due[uri] for uri in self._waiting), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(first):
                    await self._event.wait()


async def pump(batches: Batches, add: Callable[[Mapping[str, str]], None], ready: asyncio.Event, owner: str) -> None:
    """Pass on batches of changes until they end; ``ready`` is set after the first batch, or when the batches end."""
    try:
        async with aclosing(batches):
            async for batch in batches:
                ready.set()
                add(batch)
    except (MCPError, OSError) as error:
        log.warning("%s is not followed: %s", owner, error)
    finally:
        ready.set()
