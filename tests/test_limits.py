"""Limits: their documentation, their checks, and the budget of bytes."""

import re
from pathlib import Path

import msgspec
import pytest

from carrel import Limits
from carrel.errors import ConfigError
from carrel.limits import Budget

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"


def test_every_limit_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \| .+ \| (\S+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert rows == {name: str(value) for name, value in msgspec.structs.asdict(Limits()).items()}


@pytest.mark.parametrize("value", [0, -1, "5", None, True, float("nan")])
def test_a_limit_is_a_number_above_zero(value):
    with pytest.raises(ConfigError, match="max_sessions"):
        Limits(max_sessions=value)


def test_a_budget_holds_for_each_client_and_for_all():
    budget = Budget(total=100, share=60)
    assert budget.take("one", 60)
    assert not budget.take("one", 1)
    assert not budget.take("two", 41)
    assert budget.take("two", 40)
    assert (budget.used, budget.used_by("one"), budget.used_by("two")) == (100, 60, 40)
    budget.give("one", 60)
    assert (budget.used, budget.used_by("one")) == (40, 0)
    assert budget.take("two", 20)
