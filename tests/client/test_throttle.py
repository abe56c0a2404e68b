"""Throttle: a burst is free, after that unsolicited messages have to wait, and quiet time is credited."""

from __future__ import annotations

import logging

import pytest

from carrel.client.throttle import BURST, PAUSE, RATE, Throttle


def test_a_burst_is_free_and_then_the_rate_holds(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    throttle = Throttle(lambda: now, "shop")
    assert all(throttle.take() is None for _ in range(BURST))
    passed = 0
    with caplog.at_level(logging.WARNING, "carrel.client"):
        while now < 10:
            pause = throttle.take()
            passed += 1
            if pause is not None:
                assert pause >= PAUSE
                now += pause
    assert passed <= 10 * RATE + RATE * PAUSE
    assert passed >= 9 * RATE
    assert [record.getMessage().partition(" sends")[0] for record in caplog.records] == ["shop"]


def test_a_batch_counts_as_many_messages_and_quiet_time_is_credited() -> None:
    now = 0.0
    throttle = Throttle(lambda: now)
    assert throttle.take(BURST) is None
    pause = throttle.take(RATE)
    assert pause == pytest.approx(1.0)
    now = 1000.0
    assert throttle.take(BURST - 1) is None, "no more than a burst is saved up"
