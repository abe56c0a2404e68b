"""Windows of the timeline: filters that are continued, places, and memory."""

from __future__ import annotations

import pytest

from carrel.studio.problems import NotFound
from carrel.studio.timeline.log import OVERHEAD, WireLog
from carrel.studio.timeline.timeline import Timeline, WireFilter

EVERYTHING = WireFilter()


def add(log: WireLog, server: str, first: int, last: int) -> None:
    connection = log.connect(server)
    connection.revision = "2025-06-18"
    for id in range(first, last + 1):
        method = b"ping" if id % 10 else b"tools/list"
        connection.add(True, b'{"jsonrpc":"2.0","id":%d,"method":"%s"}' % (id, method))
        connection.add(False, b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id)


async def test_windows_of_a_hundred_thousand_messages() -> None:
    log = WireLog()
    timeline = Timeline(log)
    add(log, "one", 1, 50_000)
    newest = await timeline.window(EVERYTHING, None, 100, None)
    assert (newest.total, newest.offset, newest.rows[-1].number, newest.dropped) == (100_000, 99_900, 100_000, 0)
    middle = await timeline.window(EVERYTHING, 50_000, 10, None)
    assert [row.number for row in middle.rows] == list(range(50_001, 50_011))
    around = await timeline.window(EVERYTHING, None, 10, 70_000)
    assert [row.number for row in around.rows] == list(range(69_995, 70_005))
    assert set(newest.methods) == {"ping", "tools/list"}


async def test_a_filter_continues_with_new_messages_and_forgets_dropped_ones() -> None:
    log = WireLog(kept=100 * (OVERHEAD + 50))
    timeline = Timeline(log)
    invalid = WireFilter(only="invalid")
    add(log, "one", 1, 20)
    assert (await timeline.window(invalid, 0, 100, None)).total == 2  # a result of tools/list without tools
    add(log, "two", 21, 40)
    window = await timeline.window(invalid, 0, 100, None)
    assert [row.server for row in window.rows] == ["one", "one", "two", "two"]
    assert all(row.method == "tools/list" and row.direction == "received" for row in window.rows)
    add(log, "two", 41, 80)
    window = await timeline.window(invalid, 0, 100, None)
    assert window.dropped > 0
    assert window.rows[0].number > window.dropped
    assert {row.server for row in window.rows} == {"two"}


@pytest.mark.parametrize(
    ("filter", "total"),
    [
        (WireFilter(server="one"), 40),
        (WireFilter(server="three"), 0),
        (WireFilter(method="tools/list"), 8),
        (WireFilter(server="two", method="tools/list", only="errors"), 2),
        (WireFilter(text='"id":7,'), 2),
    ],
)
async def test_a_filter_selects(filter: WireFilter, total: int) -> None:
    log = WireLog()
    add(log, "one", 1, 20)
    add(log, "two", 21, 40)
    assert (await Timeline(log).window(filter, 0, 10, None)).total == total


async def test_a_message_comes_with_its_counterpart_and_a_draft_with_a_new_id() -> None:
    log = WireLog()
    timeline = Timeline(log)
    add(log, "one", 1, 3)
    detail = await timeline.detail(3)
    assert detail.text == '{"jsonrpc":"2.0","id":2,"method":"ping"}'
    assert detail.counterpart is not None
    assert detail.counterpart.number == 4
    assert detail.draft is not None
    assert '"id": "studio-7"' in detail.draft
    assert (await timeline.detail(4)).draft is None
    with pytest.raises(NotFound):
        await timeline.detail(99)
