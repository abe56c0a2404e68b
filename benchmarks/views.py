"""Lists that are cut by the view of a caller: ``python -m benchmarks.views``.

1,000 rules over 100,000 resources. Times are CPU times of this process; a page is encoded anew each time.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from time import process_time, thread_time
from typing import Any

import msgspec

from carrel import Server
from carrel.audit import AuditFile, AuditRecorder, FileOptions
from carrel.catalog.access import Gate
from carrel.catalog.paging import encode_cursor, write_cursor
from carrel.catalog.rules import READING, Rule, Rules
from carrel.policy import Policy, PolicyRule, Role
from carrel.protocol.methods import LIST_RESOURCES
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

    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, principal: Principal | None) -> View:
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


def listed(gate: Gate | None) -> Server:
    """Return a server with all resources."""
    app = Server("views", gate=gate, page_size=100)
    for number in range(RESOURCES):
        app.resources.add(f"notes://area-{number // (RESOURCES // AREAS):04d}/item-{number % 100:04d}", "text")
    return app


async def page_of(name: str, view: View | None, after: str | None) -> None:
    """Print the time of a page of 100 resources after a key."""
    app = listed(None if view is None else One(view))
    entries = app.resources.static.entries
    async with connect(app, "2026-07-28") as peer:
        cursor = None
        if after is not None:
            operation = LIST_RESOURCES.operation
            cursor = write_cursor(operation, "", encode_cursor(after, operation))

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


async def policies() -> None:
    """Print what policies of 1,000 roles and rules add to a read, and to all pages of a list, in turns."""
    roles = [Role(name=f"r{number}", local=True) for number in range(RULES)]
    exact = [Rule(f"notes://area-{number:04d}/**", READING) for number in range(RULES)]
    apps = {"no policy": listed(None)}
    for name, rules in (("whole folders", exact), ("with tests", rules_of(RULES))):
        made = [
            PolicyRule(rule.pattern, rule.verbs, rule.allow, roles=frozenset([f"r{number}" if rule.allow else "*"]))
            for number, rule in enumerate(rules)
        ]
        apps[name] = listed(Policy(roles, made, local=True))
    reads: dict[str, list[float]] = {name: [] for name in apps}
    lists: dict[str, list[float]] = {name: [] for name in apps}
    async with AsyncExitStack() as stack:
        peers = {name: await stack.enter_async_context(connect(app, "2026-07-28")) for name, app in apps.items()}
        for _ in range(12):
            for name, peer in peers.items():
                start = process_time()
                for _ in range(1000):
                    await peer.request("resources/read", {"uri": "notes://area-0500/item-0001"})
                reads[name].append((process_time() - start) * 1e3)
        for _ in range(3):
            for name, peer in peers.items():
                entries = apps[name].resources.static.entries
                start, params = process_time(), {}
                while True:
                    page = (await peer.request("resources/list", params))["result"]
                    entries.pages.clear()
                    entries._page_bytes = 0
                    if "nextCursor" not in page:
                        break
                    params = {"cursor": page["nextCursor"]}
                lists[name].append((process_time() - start) * 1e3)
    for name in apps:
        added = statistics.median(one - other for one, other in zip(reads[name], reads["no policy"], strict=True))
        ratio = min(lists[name]) / min(lists["no policy"])
        print(f"{f'{RULES} roles and rules, {name}':40} {added:9.1f} us for a read, {ratio:.1f} times for a list")


async def audit() -> None:
    """Print what an audit log costs the thread of the event loop in a read."""
    plain, audited = Server("plain"), Server("audited")
    with tempfile.TemporaryDirectory() as folder:
        recorder = AuditRecorder([AuditFile(FileOptions(path=f"{folder}/audit.jsonl", chain=True))])
        audited.endpoint.observe(recorder)
        recorder.start()
        times: dict[Server, list[float]] = {plain: [], audited: []}
        for app in times:
            app.resources.add("note://1", "text")
        async with connect(plain, "2026-07-28") as one, connect(audited, "2026-07-28") as other:
            for _ in range(20):
                for app, peer in ((plain, one), (audited, other)):
                    start = thread_time()
                    for _ in range(1000):
                        await peer.request("resources/read", {"uri": "note://1"})
                    times[app].append((thread_time() - start) * 1e3)
        recorder.stop()
    added = statistics.median(one - other for one, other in zip(times[audited], times[plain], strict=True))
    print(f"{'audit log, on the event loop':40} {added:9.1f} us for a read")


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
    asyncio.run(policies())
    asyncio.run(audit())


if __name__ == "__main__":
    main()
