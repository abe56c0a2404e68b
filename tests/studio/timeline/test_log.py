"""The log of messages: bounded, numbered, and cheap while nobody looks."""

from __future__ import annotations

import sys

import pytest

from carrel.studio.timeline.log import OVERHEAD, WireLog, without_secret_values


def filled(count: int, *, kept: int = 10_000_000) -> WireLog:
    log = WireLog(kept=kept)
    connection = log.connect("one")
    for number in range(1, count + 1):
        connection.add(number % 2 == 1, b'{"jsonrpc":"2.0","id":%d}' % number)
    return log


def test_the_oldest_messages_are_dropped_when_the_memory_is_full() -> None:
    log = filled(100, kept=10 * (OVERHEAD + 30))
    assert log.dropped > 85
    assert log.last == 100
    assert log.dropped + len(log.entries) == 100
    assert log.size <= 10 * (OVERHEAD + 30)
    assert log.find(1) is None
    assert log.find(100) is log.entries[-1]


def test_a_message_that_is_larger_than_the_memory_is_kept_until_the_next_one() -> None:
    log = WireLog(kept=1000)
    connection = log.connect("one")
    connection.add(True, b"x" * 5000)
    assert len(log.entries) == 1
    connection.add(True, b"y")
    assert [entry.data for entry in log.entries] == [b"y"]


@pytest.mark.parametrize("after", [0, 3, 99, 100, 200])
def test_messages_after_a_number(after: int) -> None:
    assert [entry.number for entry in filled(100).after(after)] == list(range(after + 1, 101))


def test_news_are_told_once_for_each_look() -> None:
    told: list[int] = []
    log = WireLog(lambda: told.append(log.last))
    connection = log.connect("one")
    connection.add(True, b"1")
    log.arm()
    connection.add(True, b"2")
    connection.add(True, b"3")
    assert told == [2]


def test_a_message_costs_few_calls_while_nobody_looks() -> None:
    log = WireLog()
    connection = log.connect("one")
    connection.add(True, b"{}")
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        connection.add(True, b"{}")
    finally:
        sys.setprofile(None)
    assert calls <= 9  # one of them ends the count


def test_only_common_headers_are_shown() -> None:
    given = {"Content-Type": "text/plain", "Authorization": "Bearer x", "X-Api-Key": "y", "Mcp-Session-Id": "z"}
    assert without_secret_values(given) == {
        "Content-Type": "text/plain",
        "Authorization": "********",
        "X-Api-Key": "********",
        "Mcp-Session-Id": "********",
    }
