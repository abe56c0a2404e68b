"""Entries in one order: sorting, merging and filtering."""

from __future__ import annotations

import asyncio
import random

import pytest

from carrel import Annotations
from carrel.host.filters import ItemFilter
from carrel.host.selection import ORDERS, Hosted, select
from carrel.studio.entries import SLICE, ServerList, merged
from carrel.wire.resources import Resource


def resources(seed: int, count: int) -> list[Resource]:
    """Return resources with equal and missing names, sizes, dates and priorities among them."""
    choose = random.Random(seed).choice
    return [
        Resource(
            uri=f"memo://{seed}/{number}",
            name=choose(["Ä", "a", "B", "b", "word", "名", ""]),
            title=choose([None, "Word", "z"]),
            mime_type=choose([None, "text/plain", "image/png"]),
            size=choose([None, 1, 10]),
            annotations=choose([None, Annotations(priority=0.5), Annotations(last_modified="2026-01-01T00:00:00Z")]),
        )
        for number in range(count)
    ]


LISTS = {"one": resources(1, 60), "two": resources(2, 1), "three": resources(3, 40), "none": []}
HOSTED = [Hosted(name, item) for name, items in LISTS.items() for item in items]


@pytest.mark.parametrize("sort", ORDERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "word",
        "word -type:image",
        "-word",
        "b -WORD size:>5",
        '""',
        "server:o* size:>5",
        "priority:0.5",
        "b memo://1",
        "under:memo://1/ under:memo://1/7",
    ],
)
async def test_entries_are_filtered_and_sorted_as_the_host_does_it(sort: str, text: str) -> None:
    entries = merged([ServerList(name, items) for name, items in LISTS.items()], sort)
    assert await entries.select(ItemFilter(text)) == select(HOSTED, {"filter": text, "sort": sort})


async def test_entries_without_an_order_are_in_the_order_of_the_lists() -> None:
    entries = merged([ServerList(name, items) for name, items in LISTS.items()], None)
    assert entries.hosted == HOSTED
    assert await entries.select(ItemFilter("word")) == select(HOSTED, {"filter": "word"})


def test_a_list_is_sorted_once() -> None:
    one = ServerList("one", LISTS["one"])
    assert one.sorted_by("name")[1] is merged([one], "name")


async def test_a_cancelled_filter_stops_after_the_current_slice() -> None:
    entries = merged([ServerList("many", resources(4, 3 * SLICE))], None)
    filtering = asyncio.ensure_future(entries.select(ItemFilter("word")))
    await asyncio.sleep(0)  # the first slice
    assert not filtering.done()
    filtering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await filtering
