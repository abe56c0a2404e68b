"""Notifications of logs: what is written is reported, at most every so many seconds, and rotation is no other log."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from pathlib import Path
from time import monotonic

import pytest

from carrel.catalog.provider import Change, Interest
from carrel.sources.logs.follow import coalesced
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.source import LogsSource
from carrel.testing import running

pytestmark = pytest.mark.asyncio

RECENT_ERRORS = "logs://recent?timeframe=5m&level=error"


@pytest.fixture
async def batches(tmp_path: Path) -> AsyncIterator[AsyncIterator[list[Change]]]:
    """Follow ``a.log`` and others; the first batch is taken."""
    (tmp_path / "a.log").write_text("one\n")
    source = LogsSource(f"logs:{tmp_path}/*.log", LogsOptions(log_name="app", notify_every=1))
    async with running(source):
        watch = source.watch(Interest([RECENT_ERRORS, "logs://app/a.log?tail=5", "logs://app/b.log?tail=5"]))
        assert not await anext(watch)
        yield watch
        await watch.aclose()


def write(path: Path, text: str = "more\n") -> None:
    with path.open("a") as file:
        file.write(text)


async def heard(batches: AsyncIterator[list[Change]], kind: str, uri: str) -> dict[str, str]:
    """Wait for a change, and return all that came with it and before it."""
    found: dict[str, str] = {}
    async with asyncio.timeout(60):
        async for batch in batches:
            found |= {change.uri: change.kind for change in batch}
            if found.get(uri) == kind:
                return found
    raise AssertionError("the watch has ended")


async def test_an_entry_is_reported_for_its_log_and_for_what_shows_it(
    batches: AsyncIterator[list[Change]], tmp_path: Path
) -> None:
    write(tmp_path / "a.log")
    found = await heard(batches, "changed", "logs://app/a.log")
    assert found == dict.fromkeys(
        ["logs://app/a.log", "logs://recent", "logs://statistics", RECENT_ERRORS, "logs://app/a.log?tail=5"], "changed"
    )


async def test_rotation_is_a_change_of_the_log(
    batches: AsyncIterator[list[Change]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.sources.folder.watch.GRACE", 1000)
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    write(tmp_path / "a.log")
    found = await heard(batches, "changed", "logs://app/a.log")
    assert not any(kind != "changed" for kind in found.values())
    write(tmp_path / "b.log")
    assert "logs://app/b.log?tail=5" in await heard(batches, "created", "logs://app/b.log")


async def test_a_burst_is_reported_at_most_every_second(batches: AsyncIterator[list[Change]], tmp_path: Path) -> None:
    begin = monotonic()
    count = 0

    async def listen() -> None:
        nonlocal count
        async for batch in batches:
            count += any(change.uri == RECENT_ERRORS for change in batch)

    listener = asyncio.ensure_future(listen())
    while monotonic() - begin < 1.5 or not count:
        write(tmp_path / "a.log")
        await asyncio.sleep(0.01)  # the time over which a burst goes on
    seconds = monotonic() - begin
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)
    assert 1 <= count <= 1 + seconds


async def test_what_is_created_or_removed_is_reported_at_once() -> None:
    async def given() -> AsyncGenerator[Collection[Change], None]:
        yield ()
        yield [Change("changed", "x")]
        yield [Change("changed", "x")]
        yield [Change("removed", "x"), Change("changed", "y")]

    async with asyncio.timeout(60):
        assert [list(batch) async for batch in coalesced(given(), 100)] == [
            [],
            [Change("changed", "x")],
            [Change("removed", "x"), Change("changed", "y")],
        ]
