"""Budgets of policies, in calls of Python functions: what rules add to a read, and to a page of a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import msgspec
import pytest

from carrel import Server
from carrel.catalog.rules import READING
from carrel.policy import Policy, PolicyRule, Role
from carrel.transports.memory import MemoryPeer, connect

COUNT = 1000
KINDS = ("notes://{}/**", "notes://{}/item-0*", "notes://{}/item-0042", "notes://{}/**/draft")


def rules(kinds: tuple[str, ...], *more: PolicyRule) -> list[PolicyRule]:
    """Return a rule for each of a thousand roles."""
    found = [
        PolicyRule(kinds[n % len(kinds)].format(f"{n:04}"), READING, roles=frozenset([f"r{n}"])) for n in range(COUNT)
    ]
    return [*found, *more]


EXACT = rules(KINDS[:1])
TESTED = rules(KINDS, PolicyRule("notes://*/item-*7", READING, False, roles=frozenset("*")))


def app_of(made: list[PolicyRule] | None) -> Server:
    roles = [Role(name=f"r{n}", local=True) for n in range(COUNT)]
    app = Server("notes", gate=None if made is None else Policy(roles, made, local=True), page_size=100)
    for area in range(0, COUNT, 125):
        for number in range(100):
            app.resources.add(f"notes://{area:04}/item-{number:04}", "text")
    return app


def calls(peer: MemoryPeer, app: Server, method: str, params: dict[str, Any]) -> int:
    """Return the number of calls of Python functions in a request whose page is not cached."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    data = msgspec.json.encode(message)
    answers: list[bytes | None] = [peer.dispatcher.receive(data)]  # the first request compiles the view
    app.resources.static.entries.pages.clear()
    count = 0

    def count_calls(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        answers.append(peer.dispatcher.receive(data))
    finally:
        sys.setprofile(before)
    for answer in answers:
        assert answer is not None
        assert b'"error"' not in answer
    return count


def measured() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "resources/read", {"uri": "notes://0500/item-0001"}
    yield "resources/list", {}


@pytest.mark.parametrize(("made", "read", "page"), [(EXACT, 10, 0), (TESTED, 10, 800)])
async def test_a_policy_adds_few_calls_to_a_read_and_to_a_page(made: list[PolicyRule], read: int, page: int) -> None:
    open_app, closed_app = app_of(None), app_of(made)
    async with connect(open_app, "2026-07-28") as one, connect(closed_app, "2026-07-28") as other:
        added = [calls(other, closed_app, *request) - calls(one, open_app, *request) for request in measured()]
    assert added[0] <= read
    assert added[1] <= page


async def test_a_decision_that_is_asked_for_often_is_made_once_and_not_kept_for_the_next_policy() -> None:
    app = app_of(TESTED)
    uri = {"uri": "notes://0500/item-0001"}
    async with connect(app, "2026-07-28") as peer:
        assert "result" in await peer.request("resources/read", uri)
        assert "result" in await peer.request("resources/read", uri)
        app.gate = Policy([Role(name="r0", local=True)], TESTED, local=True)
        assert "error" in await peer.request("resources/read", uri)
