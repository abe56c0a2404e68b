"""Limits: their documentation, their checks, and the budget of bytes."""

import re
from pathlib import Path

import msgspec
import pytest

from carrel import Limits
from carrel.errors import ConfigError
from carrel.limits import Budget, Quota

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"


def test_every_limit_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \| .+ \| (\S+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert rows == {name: str(value) for name, value in msgspec.structs.asdict(Limits()).items()}


@pytest.mark.parametrize("value", [0, -1, "5", None, True, float("nan")])
def test_a_limit_is_a_number_above_zero(value):
    with pytest.raises(ConfigError, match="max_sessions"):
        Limits(max_sessions=value)


def test_a_quota_holds_for_each_client_and_for_all():
    quota = Quota(total=100, share=60)
    assert quota.take("one", 60)
    assert not quota.take("one")
    assert not quota.take("two", 41)
    assert quota.take("two", 40)
    assert (quota.used, quota.used_by("one"), quota.used_by("two")) == (100, 60, 40)
    quota.give("one", 60)
    assert (quota.used, quota.used_by("one")) == (40, 0)
    assert quota.take("two", 20)


def test_a_budget_holds_for_each_client_and_leaves_room_for_one_more():
    budget = Budget(total=1000, share=400)
    assert not budget.take("one", 401)
    assert budget.take("one", 400)
    assert not budget.take("one", 1)
    for number in range(1000):
        while budget.take(f"client {number}", 1):
            pass
    assert budget.used <= 1000
    budget = Budget(total=1000, share=400)
    for client in "abcd":
        while budget.take(client, 10):
            pass
    assert budget.take("newcomer", 20)
    budget.give("newcomer", 20)
    for client in "abcd":
        budget.give(client, budget.used_by(client))
    assert (budget.used, budget.take("one", 400)) == (0, True)


def test_a_budget_drops_what_is_spare_of_the_same_client_oldest_first():
    budget = Budget(total=1000, share=100)
    dropped = []

    def keep(client, key, size):
        def drop():
            dropped.append(key)
            budget.give(client, size)

        assert budget.take(client, size)
        budget.spare(client, key, drop)

    for key in (1, 2, 3):
        keep("one", key, 30)
    keep("other", "theirs", 100)
    assert not budget.take("one", 101)
    assert dropped == []
    budget.need("one", 1)
    assert budget.take("one", 40)
    assert dropped == [2]
    assert budget.take("one", 30)
    assert dropped == [2, 3]
    assert not budget.take("one", 1)
    assert budget.used_by("other") == 100
