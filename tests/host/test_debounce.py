"""Debouncer: changes that are rare are taken at once, and a storm of them with pauses that grow."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from carrel.host import debounce
from carrel.host.debounce import Debouncer


async def test_a_rare_change_is_taken_at_once_and_the_same_one_only_once() -> None:
    changes: Debouncer[str] = Debouncer()
    changes.put(["tools", "prompts"])
    changes.put(["tools"])
    assert sorted(await asyncio.wait_for(changes.take(), 60)) == ["prompts", "tools"]
    taking = asyncio.ensure_future(changes.take())
    await asyncio.sleep(0)
    assert not taking.done()
    changes.put(["resources"])
    assert await asyncio.wait_for(taking, 60) == ["resources"]


async def test_a_list_that_changes_all_the_time_is_taken_with_pauses_that_double(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(debounce, "PAUSES", (0.02, 0.16))
    changes: Debouncer[str] = Debouncer()
    times = []
    async with asyncio.timeout(60):
        for _ in range(7):
            changes.put(["tools"])
            await changes.take()
            times.append(changes._taken["tools"][0])
            changes.put(["tools"])
    pauses = [after - before for before, after in itertools.pairwise(times)]
    for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.16, 0.16, 0.16), strict=True):
        assert pause >= least - 0.001


async def test_a_storm_of_one_kind_does_not_delay_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debounce, "PAUSES", (1000.0, 1000.0))
    changes: Debouncer[str] = Debouncer()
    changes.put(["tools"])
    await changes.take()
    changes.put(["tools"])
    taking = asyncio.ensure_future(changes.take())
    await asyncio.sleep(0)
    changes.put(["prompts"])
    assert await asyncio.wait_for(taking, 60) == ["prompts"]


async def test_a_pause_begins_when_a_change_has_been_dealt_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debounce, "PAUSES", (1000.0, 1000.0))
    changes: Debouncer[str] = Debouncer()
    changes.put(["tools"])
    await changes.take()
    changes.put(["tools"])
    before = changes._due["tools"][0]
    while asyncio.get_running_loop().time() <= before - 1000:
        await asyncio.sleep(0)
    changes.done(["tools"])
    assert changes._due["tools"][0] > before
