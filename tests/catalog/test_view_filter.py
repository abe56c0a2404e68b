"""Lists cut by views: pages by intervals are those of a list without what is hidden, through transforms too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel import Server
from carrel.catalog.access import UNRESTRICTED
from carrel.catalog.ordered_list import OrderedList
from carrel.catalog.provider import Page, Provider, Request
from carrel.catalog.rules import READING, Rule, Rules
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.catalog.view_filter import list_filter, shows_any
from carrel.protocol.methods import LIST_RESOURCES, Verb
from carrel.protocol.principal import Principal, View
from carrel.transports.memory import connect
from carrel.wire.resources import Resource
from support.memory_client import LATEST, listed, result


class Counted(View):
    """View by rules that counts how often it is asked."""

    def __init__(self, *rules: Rule) -> None:
        self._view = Rules(rules).view()
        self.key = "counted"
        self.intervals = self._view.intervals  # type: ignore[method-assign]
        self.reaches = self._view.reaches  # type: ignore[method-assign]
        self.asked: list[str] = []

    def allows(self, verb: Verb, target: str) -> bool:
        self.asked.append(target)
        return self._view.allows(verb, target)


@pytest.mark.parametrize(
    ("name", "keys", "shown"),
    [
        ("resources_list_changed", ["a:1", "b:1"], True),
        ("resources_list_changed", ["b:1", "a:hidden"], False),
        ("resources_list_changed", ["a:{id}"], True),
        ("resources_list_changed", ["b:{id}"], False),
        ("resources_list_changed", [], False),
        ("tools_list_changed", ["buy"], True),
        ("tools_list_changed", ["sell"], False),
        ("prompts_list_changed", ["buy"], False),
    ],
)
def test_a_change_is_shown_to_callers_who_may_list_one_of_the_entries(name, keys, shown) -> None:
    rules = [Rule("a:*", READING), Rule("a:hidden", READING, allow=False), Rule("buy", frozenset({"call"}))]
    assert shows_any(Rules(rules).view(), name, keys) is shown
    assert shows_any(UNRESTRICTED, name, keys) is (bool(keys) or name == "resources_list_changed")


class One:
    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, principal: Principal | None) -> View:
        return self._view


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 9)), st.integers(1, 7))
def test_a_page_has_the_next_entries_that_are_shown(numbers: set[int], tens: set[int], limit: int) -> None:
    listing: OrderedList[int] = OrderedList()
    for number in numbers:
        listing.put(f"{number:02d}", number)
    rules = [Rule(f"{ten}**", READING) for ten in tens]
    view = Rules([*rules, Rule("*3", READING, allow=False)]).view()
    found: list[int] = []
    after: str | None = None
    cut = list_filter(view, LIST_RESOURCES)
    while True:
        page, after = listing.page(after, limit, cut.within, cut.shown)
        found += [entry for _, entry in page]
        if after is None:
            break
        assert len(page) == limit
        assert after == page[-1][0]
    assert found == sorted(number for number in numbers if number // 10 in tens and number % 10 != 3)


async def test_keys_outside_all_intervals_are_not_asked_for() -> None:
    view = Counted(Rule("memo://50*", READING), Rule("memo://7*", READING), Rule("memo://705", READING, allow=False))
    app = Server("counted", gate=One(view))
    for number in range(1000):
        app.resources.add(f"memo://{number:03d}", "text")
    uris = [f"memo://{number}" for number in (*range(500, 510), *range(700, 800))]
    async with connect(app, LATEST) as peer:
        found = [resource["uri"] for resource in await listed(peer)]
    assert found == [uri for uri in uris if uri != "memo://705"]
    assert set(view.asked) <= set(uris)


@pytest.mark.parametrize("hidden", ["memo://a/2", "memo://a/3", "memo://b/9"])
async def test_a_list_has_the_same_bytes_whether_an_entry_is_denied_or_is_not_there(hidden: str) -> None:
    rules = [Rule("**", READING), Rule(hidden, READING, allow=False)]
    apps = [Server("list", gate=One(Rules(rules).view()), page_size=2) for _ in range(2)]
    for app in apps:
        for uri in ("memo://a/1", "memo://a/2", "memo://a/3", "memo://a/4", "memo://b/9"):
            app.resources.add(uri, "text")
    apps[1].resources.remove(hidden)
    pages: list[list[dict[str, Any]]] = []
    for app in apps:
        found: list[dict[str, Any]] = []
        async with connect(app, LATEST) as peer:
            while not found or "nextCursor" in found[-1]:
                params = {"cursor": found[-1]["nextCursor"]} if found else {}
                found.append(await result(peer, "resources/list", **params))
        pages.append(found)
    assert pages[0] == pages[1]


class Seen(Provider):
    """Provider that keeps the intervals which it was asked for."""

    name = "seen"

    def list_resources(self, request: Request) -> Page[Resource]:
        assert request.view is not None
        self.intervals = request.view.intervals("list")
        self.names = request.view.intervals("call")
        return Page(())


async def test_intervals_reach_a_provider_in_its_own_names() -> None:
    calls = frozenset[Verb]({"call"})
    rules = [Rule("lib+memo://a/**", READING), Rule("ui://lib/x", READING), Rule("memo://b", READING)]
    view = Rules([*rules, Rule("lib_get*", calls), Rule("other", calls)]).view()
    seen = Seen()
    await Namespace(seen, "lib").list_resources(Request(view=view))
    assert all(uri in seen.intervals for uri in ("memo://a/1", "ui://x"))
    assert not any(uri in seen.intervals for uri in ("memo://b", "ui://y"))
    assert [key in seen.names for key in ("get_x", "lib_get_x", "other")] == [True, False, False]
    await Filter(seen, resources=["memo:*"]).list_resources(Request(view=view))
    assert "memo://b" in seen.intervals
    await Rename(seen, tools={"a": "b"}).list_resources(Request(view=view))
    assert "memo://b" in seen.intervals
    assert seen.names is None


async def test_only_the_view_of_everybody_is_public() -> None:
    everybody = Rules([Rule("memo://**", READING)]).view()
    blue = Rules([Rule("{color}://**", READING), Rule("memo://**", READING)]).view({"color": "blue"})
    for view, scope in ((everybody, "public"), (blue, "private"), (UNRESTRICTED, "private")):
        app = Server("scopes", gate=One(view), scope="public", ttl=60)
        app.resources.add("memo://1", "text")
        app.resource("memo://x/{name}", name="memo")(lambda name: name)
        async with connect(app, LATEST) as peer:
            for method, params in (
                ("resources/list", {}),
                ("resources/templates/list", {}),
                ("resources/read", {"uri": "memo://1"}),
                ("resources/read", {"uri": "memo://x/1"}),
            ):
                assert (await result(peer, method, **params))["cacheScope"] == scope, (method, view)


async def test_a_template_is_listed_and_completed_where_it_reaches_something_allowed() -> None:
    app = Server("templates", gate=One(Rules([Rule("memo://blue/**", READING)]).view()))
    app.resource("memo://{team}/{name}", name="memo")(lambda team, name: name).complete("team")(
        lambda typed: ["blue", "red", "blu"]
    )
    app.resource("note://{team}", name="note")(lambda team: team)
    async with connect(app, LATEST) as peer:
        page = await result(peer, "resources/templates/list")
        assert [each["uriTemplate"] for each in page["resourceTemplates"]] == ["memo://{team}/{name}"]
        found = await result(
            peer,
            "completion/complete",
            ref={"type": "ref/resource", "uri": "memo://{team}/{name}"},
            argument={"name": "team", "value": ""},
        )
        assert found["completion"]["values"] == ["blue"]
