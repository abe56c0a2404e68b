"""Notifications of changes reach the callers who may see what has changed, and no others."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.provider import ListName
from carrel.catalog.rules import READING, Rule, Rules
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal, View
from carrel.protocol.revisions import REVISIONS
from carrel.server.audience import Audience
from carrel.server.subscriptions import MAX_KEYS, Hub, Subscription
from carrel.transports.memory import connect
from support.raw_http import serving

pytestmark = pytest.mark.asyncio

USING = frozenset[Verb]({"call", "get"})
RULES = Rules(
    [
        Rule("**", READING),
        Rule("memo://secret/**", READING, allow=False),
        Rule("lib+memo://secret/**", READING, allow=False),
        Rule("file://**/secret*/**", READING, allow=False),
        Rule("*", USING),
        Rule("*secret*", USING, allow=False),
    ]
)


class Same:
    """Gate that gives one view to all."""

    def view(self, principal: Principal | None) -> View:
        return RULES.view()


def change(app: Server, area: str) -> None:
    """Change all lists."""
    app.resources.add(f"memo://{area}/1", area)
    app.resource(f"memo://{area}/by/{{name}}", name=area)(lambda name: name)
    app.tools.add(lambda: area, name=f"{area}_tool")
    app.prompts.add(lambda: area, name=f"{area}_prompt")


LISTENED = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
HEARD = [f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools")]


@pytest.mark.slow
@pytest.mark.parametrize("mounted", [False, True])
async def test_lists_that_change_by_what_is_hidden_have_not_changed_for_the_caller(mounted: bool) -> None:
    app = inner = Server("lists", gate=Same())
    change(app, "open")
    app.resources.add("memo://open/news", "")
    if mounted:
        inner = Server("inner")
        change(inner, "plain")
        app.add_provider(inner, namespace="lib")
    endpoint = app.asgi()
    await endpoint.start()
    async with serving(endpoint) as site:
        stream = await site.listen("memo://open/news", **LISTENED)
        change(inner, "secret")
        app.resources.changed("memo://open/news")
        assert (await stream.message())["method"] == "notifications/resources/updated"
        change(inner, "other")
        assert sorted([(await stream.message())["method"] for _ in HEARD]) == HEARD
        inner.resources.remove("memo://secret/1")
        inner.tools.remove("secret_tool")
        inner.prompts.remove("secret_prompt")
        app.resources.changed("memo://open/news")
        assert (await stream.message())["method"] == "notifications/resources/updated"


async def test_a_resource_that_was_denied_since_a_client_subscribed_to_it_is_not_announced() -> None:
    denied: set[str] = set()

    class Denying(View):
        def allows(self, verb: Verb, target: str) -> bool:
            return target not in denied

    class Gate:
        def view(self, principal: Principal | None) -> View:
            return Denying()

    app = Server("updates", gate=Gate())
    for name in ("a", "b"):
        app.resources.add(f"memo://{name}", name)
    async with connect(app, "2025-11-25") as peer:
        for name in ("a", "b"):
            await peer.request("resources/subscribe", {"uri": f"memo://{name}"})
        denied.add("memo://a")
        app.resources.changed("memo://a", "memo://b")
        assert (await peer.notification())["params"]["uri"] == "memo://b"


async def test_a_change_whose_entries_are_not_known_is_announced_to_all() -> None:
    app = Server("lists", gate=Same())
    app.tools.add(lambda: "", name="open_tool")
    async with connect(app, "2025-11-25") as peer:
        app.endpoint.runtime.notify(lists=["tools_list_changed"])
        assert (await peer.notification())["method"] == "notifications/tools/list_changed"


class Counted(View):
    def __init__(self, key: str) -> None:
        self.key = key
        self.asked = 0

    def allows(self, verb: Verb, target: str) -> bool:
        self.asked += 1
        return self.key in target


class Teams:
    """Gate that counts how often it is asked."""

    def __init__(self) -> None:
        self.views = {"red": Counted("red"), "blue": Counted("blue")}
        self.asked = 0

    def view(self, principal: Principal | None) -> View:
        assert principal is not None
        self.asked += 1
        return self.views[principal.claims["team"]]


class Channel:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, message: bytes, key: Hashable = None) -> None:
        self.sent.append(message)

    async def drain(self) -> None: ...

    def pause(self, retry: int | None = None) -> None: ...


def listeners(hub: Hub, count: int) -> list[Channel]:
    """Open subscriptions of four principals, two in each team."""
    principals = [Principal(subject=str(n), claims={"team": ("red", "blue")[n % 2]}) for n in range(4)]
    channels = []
    for number in range(count):
        client = ConnectedClient(principal=principals[number % 4])
        channels.append(Channel())
        lists = frozenset({"resources_list_changed"})
        hub.open(Subscription(channels[-1], REVISIONS["2025-11-25"], lists, {"x:red": "x:red"}, client=client))
    return channels


@pytest.mark.parametrize(
    ("uris", "lists"), [(["x:red"], {}), ([], {"resources_list_changed": ["x:red"]})], ids=["resource", "list"]
)
async def test_a_view_is_asked_once_for_a_change_that_a_hundred_listen_to(
    uris: list[str], lists: dict[ListName, Collection[str] | None]
) -> None:
    hub, gate = Hub(), Teams()
    hub.gate = gate
    channels = listeners(hub, 100)
    hub.changed(uris, lists)
    hub.changed(uris, lists)
    hub._flush()
    assert [len(channel.sent) for channel in channels] == [1, 0] * 50
    assert gate.asked == 4
    assert [view.asked for view in gate.views.values()] == [2, 1]  # whether it may, and may read
    hub.shut()


async def test_more_entries_than_are_looked_up_are_announced_to_all() -> None:
    hub = Hub()
    hub.gate = Teams()
    channels = listeners(hub, 4)
    hub.changed((), {"resources_list_changed": [f"x:{number}" for number in range(MAX_KEYS)]})
    hub.changed((), {"resources_list_changed": ["x:last"]})
    hub._flush()
    assert [len(channel.sent) for channel in channels] == [1] * 4
    hub.shut()


async def test_a_client_that_comes_back_hears_of_earlier_changes_that_it_may_know_of() -> None:
    hub = Hub()
    hub.gate = Teams()
    listeners(hub, 1)
    (entry,) = hub._entries
    channel: Any = entry.channel
    hub.catch_up(entry, ["x:red"], {"resources_list_changed": ["x:blue"], "tools_list_changed": ["red"]})
    assert [b"updated" in message for message in channel.sent] == [True]
    hub.resync(entry)
    assert len(channel.sent) == 3
    hub.shut()


async def test_a_gate_that_fails_keeps_a_change_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def view(self, principal: Principal | None) -> View:
            raise ValueError("no database")

    with caplog.at_level(logging.ERROR, "carrel"):
        audience = Audience.of_resource(Failing(), "x:1")
        assert not audience.has(None)
        assert not audience.has(None)
    assert [record.message for record in caplog.records] == [
        "the gate has failed: a client is not notified of a change"
    ]


async def test_without_a_gate_and_scopes_all_hear_of_all() -> None:
    audience = Audience.of_list(None, "tools_list_changed", ["x"])
    assert audience.has(None)
    assert audience.has(Principal(subject="a"))
