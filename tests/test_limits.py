"""Limits: their documentation, their checks, and the budget of bytes."""

import re
from pathlib import Path

import msgspec
import pytest

from carrel import Limits
from carrel.client import connection, incoming_requests, results, throttle, watch
from carrel.errors import ConfigError
from carrel.gateway import learning
from carrel.host import debounce, processor_limiter, remote, remote_changes, remote_entries, remote_pages, shown_names
from carrel.limits import FIXED, Budget, Quota
from carrel.transports.client import process_pipes

MIB = 1024 * 1024
PAGE = Path(__file__).parent.parent / "docs" / "limits.md"


def test_every_limit_is_documented_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (\S+) \| (yes|no) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    defaults = {name: str(value) for name, value in msgspec.structs.asdict(Limits()).items()}
    assert {name: default for name, default, _ in rows} == defaults
    assert [name for name, _, changes in rows if changes == "no"] == list(FIXED)


def test_the_limits_of_clients_are_documented_with_their_values():
    rows = dict(
        re.findall(r"^\| (`[A-Z_`, ]+`) \| .+? \| (.+?) \| .*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert rows == {
        "`MAX_PAGES`": f"{results.MAX_PAGES:,}",
        "`MAX_ENTRIES`": f"{results.MAX_ENTRIES:,}",
        "`MAX_LIST_BYTES`": f"{results.MAX_LIST_BYTES // MIB} MiB",
        "`MAX_LISTED`": f"{remote.MAX_LISTED:,}",
        "`RATE`, `BURST`": f"{throttle.RATE:,} a second, after {throttle.BURST:,} at once",
        "`MAX_INCOMING`": f"{incoming_requests.MAX_INCOMING:,}",
        "`MAX_UNSENT_ANSWERS`": f"{incoming_requests.MAX_UNSENT_ANSWERS:,}",
        "`MAX_UNREAD`": f"{process_pipes.MAX_UNREAD // MIB} MiB",
        "`MAX_CALLBACKS`": f"{connection.MAX_CALLBACKS:,}",
        "`MAX_WAITING`": f"{watch.MAX_WAITING:,}",
        "`ERROR_RATE`, `ERROR_BURST`": f"{process_pipes.ERROR_RATE // MIB} MiB a second, after "
        f"{process_pipes.ERROR_BURST // MIB} MiB",
        "`MAX_ENTRY`, `MAX_DEPTH`": f"{remote_entries.MAX_ENTRY // MIB} MiB, {remote_entries.MAX_DEPTH} levels",
        "`MAX_NAME`": f"{shown_names.MAX_NAME:,}",
        "`MAX_TEMPLATES`": f"{learning.MAX_TEMPLATES:,}",
        "`SLICE`, `SHARE`": f"{processor_limiter.SLICE // 1024} KiB at a time, half of the processor",
        "`LONG`": f"{remote_pages.LONG:,}",
        "`PAUSES`": f"one at once, then after 0.1, 0.2, 0.4 … up to {debounce.PAUSES[1]:g} seconds, from the end of a "
        "reading to the next",
    }
    assert processor_limiter.SHARE == 0.5
    assert remote_changes.MAX_WAITING == watch.MAX_WAITING


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
        budget.add_evictable(client, key, drop)

    for key in (1, 2, 3):
        keep("one", key, 30)
    keep("other", "theirs", 100)
    assert not budget.take("one", 101)
    assert dropped == []
    budget.remove_evictable("one", 1)
    assert budget.take("one", 40)
    assert dropped == [2]
    assert budget.take("one", 30)
    assert dropped == [2, 3]
    assert not budget.take("one", 1)
    assert budget.used_by("other") == 100
