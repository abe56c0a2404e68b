"""Polling: changes between looks, and looks that fail."""

import asyncio
import itertools
import logging

import pytest

from carrel.errors import TransportError
from carrel.sources import Change
from carrel.sources.polling import Unlisted, changes_between, poll


def test_changes_are_what_is_new_different_and_gone() -> None:
    assert changes_between({"a:1": 1, "a:2": 1, "a:3": 1}, {"a:2": 2, "a:3": 1, "a:4": 1}) == [
        Change("removed", "a:1"),
        Change("created", "a:4"),
        Change("changed", "a:2"),
    ]


async def test_the_first_batch_is_empty_and_looks_without_changes_yield_nothing() -> None:
    looks = iter([{"a:1": 1}, {"a:1": 1}, {"a:1": 2}])

    async def look() -> dict[str, int]:
        return next(looks)

    changes = poll(look, 0.001, owner="a")
    assert await anext(changes) == ()
    assert await anext(changes) == [Change("changed", "a:1")]
    await changes.aclose()


@pytest.mark.parametrize("error", [TransportError("the server is away"), ConnectionResetError("reset")])
async def test_a_look_that_fails_is_logged_once_and_tried_again_and_so_is_its_return(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    count = itertools.count()

    async def look() -> dict[str, int]:
        if next(count) in (1, 2):
            raise error
        return {"a:1": next(count)}

    with caplog.at_level(logging.WARNING, "carrel.sources"):
        changes = poll(look, 0.001, owner="the shop")
        assert await anext(changes) == ()
        assert [change.kind for change in await anext(changes)] == ["changed"]
        await changes.aclose()
    assert [record.getMessage() for record in caplog.records] == [
        f"the shop cannot be looked at for changes: {error}",
        "the shop can be looked at for changes again",
    ]


def test_what_is_not_listed_changes_and_is_never_created_or_removed() -> None:
    assert changes_between({}, {"a:1": Unlisted(1)}) == [Change("changed", "a:1")]
    assert changes_between({"a:1": Unlisted(1)}, {"a:1": Unlisted(2)}) == [Change("changed", "a:1")]
    assert changes_between({"a:1": Unlisted(1)}, {}) == []
    assert changes_between({"a:1": 1}, {"a:1": Unlisted(None)}) == [Change("removed", "a:1")]
    assert changes_between({"a:1": Unlisted(None)}, {"a:1": 1}) == [Change("created", "a:1")]


async def test_a_pause_ends_when_the_poll_is_woken() -> None:
    wake = asyncio.Event()
    count = itertools.count()

    async def look() -> dict[str, int]:
        wake.set()
        return {"a:1": next(count)}

    changes = poll(look, 3600, owner="a", wake=wake)
    async with asyncio.timeout(60):
        assert await anext(changes) == ()
        assert await anext(changes) == [Change("changed", "a:1")]
    await changes.aclose()
