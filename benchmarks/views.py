"""Lists that are cut by the view of a caller: ``python -m benchmarks.views``.

1,000 rules over 100,000 resources. Times are CPU times of this process; a page is encoded anew each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import process_time
from typing import Any

import msgspec

from carrel import Server
from carrel.catalog.rules import READING, Rule, Rules
from carrel.protocol.principal import Principal, View
from carrel.transports.memory import connect

RESOURCES = 100_000
RULES = 1_000
AREAS = 1_000


def rules_of(count: int) -> list[Rule]:
    """Return rules of which every fourth is a test of segments, and one that denies by such a test."""
    kinds = (
        "notes://area-{:04d}/**",
        "notes://area-{:04d}/item-0*",
        "notes://area-{:04d}/item-0042",
        "notes://area-{:04d}/**/draft",
    )
    rules = [Rule(kinds[number % 4].format(number), READING) for number in range(count)]
    return [*rules, Rule("notes://*/item-*7", READING, allow=False)]


class Asked(View):
    """View that answers for each URI only."""

    def __init__(self, view: View) -> None:
        self.key = f"asked {view.key}"
        self.allows = view.allows  # type: ignore[method-assign]


class One:
    """Gate that gives one view to all."""

    def __init__(self, view: View | None) -> None:
        self._view = view

    def view(self, principal: Principal | None) -> View | None:
        return self._view


def best(function: Callable[[], object], times: int, rounds: int = 5) -> float:
    """Return the least time of a call, in microseconds."""
    found = []
    for _ in range(rounds):
        start = process_time()
        for _ in range(times):
            function()
        found.append((process_time() - start) / times * 1e6)
    return min(found)


async def page_of(name: str, view: View | None, after: str | None) -> None:
    """Print the time of a page of 100 resources after a key."""
    app = Server("views", gate=One(view), page_size=100)
    for number in range(RESOURCES):
        app.resources.add(f"notes://area-{number // (RESOURCES // AREAS):04d}/item-{number % 100:04d}", "text")
    entries = app.resources.static.entries
    async with connect(app, "2026-07-28") as peer:
        cursor = None
        if after is not None:
            from carrel.catalog.paging import position_of, write_cursor

            cursor = write_cursor("list_resources", "", position_of(after))

        async def ask() -> Any:
            return await peer.request("resources/list", {} if cursor is None else {"cursor": cursor})

        for _ in range(2):
            page = await ask()
            entries.pages.clear()
            entries._page_bytes = 0
        times = []
        for _ in range(20):
            start = process_time()
            await ask()
            times.append((process_time() - start) * 1e6)
            entries.pages.clear()
            entries._page_bytes = 0
        found = page["result"]["resources"]
        print(f"{name:40} {min(times):9.0f} us  ({len(found)} entries)")


def encoding() -> None:
    """Print what 1,000 entries take, encoded anew and joined."""
    from carrel.wire.resources import ListResourcesResult, Resource

    entries = [
        Resource(f"notes://area/item-{n:04d}", f"item {n}", description="A note", mime_type="text/plain")
        for n in range(1000)
    ]
    encoder = msgspec.json.Encoder()
    raws: Any = [msgspec.Raw(encoder.encode(entry)) for entry in entries]
    for how, items in (("encoded", entries), ("joined", raws)):
        page = ListResourcesResult(resources=items)
        print(f"{f'1,000 entries {how}':40} {best(lambda page=page: encoder.encode(page), 20):9.0f} us")  # type: ignore[misc]


def main() -> None:
    """Print the times."""
    rules = rules_of(RULES)
    compiled = best(lambda: Rules(rules).view().intervals("list"), 1)
    print(f"{f'compile {RULES} rules':40} {compiled:9.0f} us")
    view = Rules(rules).view()
    exact = Rules([rule for rule in rules if rule.allow and "*/" not in rule.pattern]).view()
    uri = "notes://area-0500/item-0001"
    print(f"{'decide, by intervals':40} {best(lambda: exact.allows('read', uri), 2000):9.2f} us")
    for what, uri in (
        ("with a test that denies", "notes://area-0500/item-0001"),
        ("with tests of both", "notes://area-0501/item-0042"),
        ("outside", "memo://x"),
    ):
        print(f"{f'decide, {what}':40} {best(lambda uri=uri: view.allows('read', uri), 2000):9.2f} us")  # type: ignore[misc]
    encoding()
    some = Rules([Rule(f"notes://area-{number:04d}/**", READING) for number in range(0, AREAS, 100)]).view()
    every = Rules([Rule("notes://**", READING)]).view()
    middle = "notes://area-0500/item-0049"
    asyncio.run(page_of("page, no gate's view", None, middle))
    asyncio.run(page_of("page, view of all", every, middle))
    asyncio.run(page_of("page, view of 1 %", some, middle))
    asyncio.run(page_of("page, view of 1 %, asked for each", Asked(some), middle))


if __name__ == "__main__":
    main()
