"""Limiter: rates, bursts, bytes and calls at a time, by role, pattern, client and address."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from carrel.errors import TooManyRequests
from carrel.policy.limit_reading import read_limits
from carrel.policy.limiter import Limiter
from carrel.protocol.methods import CALL_TOOL, LIST_TOOLS, READ_RESOURCE, RequestType
from carrel.protocol.principal import Principal
from carrel.state.memory_tables import MemoryQuotas


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limiter(table: dict[str, Any], clock: Clock, **roles: set[str]) -> Limiter:
    rules, problems = read_limits(table, {"viewer"}, lambda path: "carrel.toml:1")
    assert problems == []
    quotas = MemoryQuotas(clock)

    def roles_of(principal: Principal | None) -> frozenset[str]:
        return frozenset() if principal is None else frozenset(roles.get(principal.subject, ()))

    return Limiter(rules, lambda: quotas, roles_of, clock)


def call(row: RequestType = LIST_TOOLS, target: str = "", *, user: str | None = None, address: str = "") -> Any:
    return SimpleNamespace(
        request=row,
        params=SimpleNamespace(name=target, uri=target),
        principal=None if user is None else Principal(subject=user),
        client=SimpleNamespace(address=address, key=address),
    )


async def admitted(limiter: Limiter, *calls: Any) -> list[bool]:
    """Return which of some requests are admitted. Each one ends at once."""
    found = []
    for each in calls:
        try:
            (await limiter.admit(each)).close()
            found.append(True)
        except TooManyRequests:
            found.append(False)
    return found


async def test_a_rate_is_kept_within_five_percent_over_a_minute() -> None:
    clock = Clock()
    found = limiter({"requests": "120/minute", "burst": 5}, clock)
    count = 0
    for _ in range(6000):
        count += (await admitted(found, call()))[0]
        clock.now += 0.01
    assert 120 * 0.95 <= count - 5 <= 120 * 1.05
    assert found.refused["carrel.toml:1"] == 6000 - count


async def test_a_refusal_says_when_to_come_back() -> None:
    clock = Clock()
    found = limiter({"requests": "60/minute", "burst": 2}, clock)
    assert await admitted(found, *[call()] * 3) == [True, True, False]
    with pytest.raises(TooManyRequests, match="at most 60 requests per minute; try again in 1 s") as caught:
        await found.admit(call())
    assert (caught.value.data, caught.value.retry_after) == ({"retryAfterMs": 1000}, 1.0)
    clock.now += caught.value.retry_after
    assert await admitted(found, call(), call()) == [True, False]


@pytest.mark.parametrize(
    ("per", "expected"),
    [("client", [True, True, True]), ("address", [True, False, True]), ("all", [True, False, False])],
)
async def test_requests_are_counted_for_each_client_or_address_or_for_all(per: str, expected: list[bool]) -> None:
    found = limiter({"rules": [{"requests": "1/minute", "per": per}]}, Clock())
    calls = [call(user="ann", address="a"), call(user="bob", address="a"), call(user="cid", address="b")]
    assert await admitted(found, *calls) == expected


async def test_requests_beyond_a_limit_of_one_client_take_nothing_from_a_limit_of_all() -> None:
    rules = [{"requests": "5/hour", "per": "all"}, {"requests": "2/hour", "per": "address"}]
    found = limiter({"rules": rules}, Clock())
    assert await admitted(found, *[call(address="a")] * 7) == [True, True, *[False] * 5]
    assert await admitted(found, *[call(address="b")] * 2) == [True, True]


async def test_clients_without_a_principal_are_told_apart_by_address() -> None:
    found = limiter({"requests": "1/minute"}, Clock())
    assert await admitted(found, call(address="a"), call(address="b"), call(address="a")) == [True, True, False]


async def test_a_rule_is_for_its_roles_and_patterns() -> None:
    rules = [
        {"requests": "1/minute", "role": "viewer", "tools": "search_*"},
        {"requests": "1/minute", "resources": "notes://secret/**"},
    ]
    found = limiter({"rules": rules}, Clock(), ann={"viewer"})
    search = call(CALL_TOOL, "search_books", user="ann")
    assert await admitted(found, search, search) == [True, False]
    for other in (call(CALL_TOOL, "other", user="ann"), call(CALL_TOOL, "search_books", user="bob"), call(user="ann")):
        assert await admitted(found, other, other) == [True, True]
    spellings = [call(READ_RESOURCE, uri) for uri in ("notes://secret/1", "NOTES://secret/2", "notes://%73ecret/3")]
    assert await admitted(found, *spellings) == [True, False, False]


async def test_calls_at_a_time_are_given_back_when_they_end() -> None:
    found = limiter({"rules": [{"concurrent": 2, "per": "all"}, {"requests": "3/minute", "per": "all"}]}, Clock())
    first, _ = await found.admit(call()), await found.admit(call())
    with pytest.raises(TooManyRequests, match="2 at a time"):
        await found.admit(call())
    first.close()
    first.close()
    third = await found.admit(call())
    third.close()
    with pytest.raises(TooManyRequests, match="3 requests per minute"):
        await found.admit(call())
    assert sum(found.busy.values()) == 1  # a refused request is not in progress


async def test_bytes_beyond_a_limit_are_paid_back_before_the_next_request() -> None:
    clock = Clock()
    found = limiter({"bytes": "6kB/minute"}, clock)
    sent, size = 0, 2500
    for _ in range(6000):
        try:
            admission = await found.admit(call())
        except TooManyRequests:
            pass
        else:
            admission.close()
            await found.spend(admission, size)
            sent += size
        clock.now += 0.1
    # 6,000 at once, and 100 each second; the last response may be beyond that.
    assert 66_000 * 0.95 <= sent <= 66_000 * 1.05 + size


async def test_a_response_larger_than_the_limit_is_waited_for() -> None:
    clock = Clock()
    found = limiter({"bytes": "60B/minute"}, clock)
    await found.spend(await found.admit(call()), 180)
    with pytest.raises(TooManyRequests) as caught:
        await found.admit(call())
    assert caught.value.retry_after == pytest.approx(120, rel=0.01)
    clock.now += caught.value.retry_after + 1.1
    (await found.admit(call())).close()


async def test_other_rules_hold_from_the_next_request_on_and_equal_ones_keep_their_counts() -> None:
    found = limiter({"requests": "1/minute"}, Clock())
    assert await admitted(found, call(), call()) == [True, False]
    rules, _ = read_limits({"requests": "1/minute"}, (), lambda path: "carrel.toml:7")
    found.set_rules(rules)
    assert await admitted(found, call()) == [False]
    found.set_rules([])
    assert await admitted(found, call(), call()) == [True, True]


async def test_refusals_are_logged_from_time_to_time(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    found = limiter({"requests": "1/day"}, clock)
    await admitted(found, *[call()] * 10)
    assert [record.getMessage() for record in caplog.records] == [
        "carrel.toml:1: 1 request refused: at most 1 requests per day"
    ]
    clock.now += 61
    await admitted(found, call())
    assert "carrel.toml:1: 9 requests refused" in caplog.text


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "needs a limit"),
        ({"requests": "fast"}, "requests: 'fast' is not a number in a second, minute, hour or day"),
        ({"requests": 5}, "for example '100/minute'"),
        ({"requests": "5MB/second"}, "for example '100/minute'"),
        ({"requests": "0/second"}, "0 would allow nothing"),
        ({"bytes": "1GiB/week"}, "for example '10MiB/minute'"),
        ({"concurrent": 0}, "concurrent: 0 is not a whole number from 1 to"),
        ({"concurrent": 10**400}, "concurrent: the number is not a whole number from 1 to 1,000,000,000,000,000"),
        ({"requests": "9" * 400 + "/minute"}, "requests: the amount is not from 1 to 1,000,000,000,000,000"),
        ({"requests": "1/minute", "burst": 10**400}, "burst: the number is not"),
        ({"concurrent": True}, "concurrent: True is not"),
        ({"concurrent": 1, "burst": 2}, "needs requests"),
        ({"concurrent": 1, "per": "user"}, "per: 'user' is not one of client, address, all"),
        ({"concurrent": 1, "role": "vewer"}, "there is no role 'vewer'; did you mean 'viewer'?"),
        ({"concurrent": 1, "tool": "x"}, "a limit rule has no 'tool'; did you mean 'tools'?"),
        ({"concurrent": 1, "tools": []}, "tools: expected a text"),
        ({"concurrent": 1, "resources": "a**b"}, "whole segments"),
        ({"concurrent": 1, "resources": "notes://{claim.team}/**"}, "no braces"),
    ],
)
def test_what_cannot_be_understood_is_named_by_line(rule: dict[str, Any], message: str) -> None:
    rules, problems = read_limits(
        {"rules": [rule, {"concurrent": 3}]}, {"viewer"}, lambda path: f"carrel.toml:{path[2]}"
    )
    assert [len(rules), len(problems)] == [1, 1]
    assert problems[0].startswith("carrel.toml:0: ")
    assert message in problems[0]


def test_rules_are_tables() -> None:
    assert read_limits({"rules": {"requests": "1/second"}}, (), lambda path: "carrel.toml:1") == (
        [],
        ["carrel.toml:1: rules are tables: write [[limits.rules]] before each"],
    )
