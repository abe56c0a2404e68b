"""Changes: who is told of what, when, in which words, and who is not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Collection, Hashable
from typing import Any

import msgspec
import pytest

from carrel import Context, Limits, Server
from carrel.catalog.provider import Change, Interest
from carrel.protocol.revisions import REVISIONS
from carrel.server import subscriptions
from carrel.server.subscriptions import Hub, Subscription
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from carrel.wire.resources import SubscriptionFilter
from support import capabilities
from support.memory_client import ALL, HANDSHAKES, JUNE, LATEST, NOVEMBER, OLDEST, PREFIX, error, result
from support.numbered_provider import Numbers

CANCELLED = "notifications/cancelled"

ID = f"{PREFIX}subscriptionId"


async def silence(peer: MemoryPeer) -> bool:
    """Whether nothing was said; what is still on its way by now has a turn to arrive."""
    await peer.request("resources/list")
    for _ in range(3):
        await asyncio.sleep(0)
    return peer._notifications.empty()


async def listen(peer: MemoryPeer, **wanted: Any) -> tuple[asyncio.Future[dict[str, Any]], dict[str, Any]]:
    """Open a stream of notifications; return the future of its end, and what was acknowledged."""
    stream = peer.start("subscriptions/listen", {"notifications": wanted})
    acknowledged = await peer.notification()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    return stream, acknowledged["params"]


async def updated(peer: MemoryPeer) -> str:
    """Return the URI of the next notification, which is that a resource was updated."""
    note = await peer.notification()
    assert note["method"] == "notifications/resources/updated", note
    return note["params"]["uri"]


def everything(**details: Any) -> Server:
    app = Server("s", **details)
    app.resources.add("x://1", "one")
    app.resources.add("x://2", "two")
    app.resource("y://{a}")(lambda a: a)
    app.tools.add(lambda: "", name="t")
    app.prompts.add(lambda: "", name="p")
    return app


# Capabilities


@pytest.mark.parametrize("subscribe", [True, False])
@pytest.mark.parametrize("list_changed", [True, False])
@pytest.mark.parametrize("revision", ALL)
async def test_declared_subscription_capabilities_are_honoured(
    revision: str, subscribe: bool, list_changed: bool
) -> None:
    app = everything(subscribe=subscribe, list_changed=list_changed)
    async with memory.connect(app, revision) as peer:
        if revision == LATEST:
            capabilities = (await result(peer, "server/discover"))["capabilities"]
        else:
            capabilities = msgspec.to_builtins(app.capabilities())
        changes = {"listChanged": True} if list_changed else {}
        assert capabilities["tools"] == capabilities["prompts"] == changes
        assert capabilities["resources"] == ({"subscribe": True} if subscribe else {}) | changes
        if revision == LATEST:
            _, agreed = await listen(
                peer,
                toolsListChanged=True,
                promptsListChanged=True,
                resourcesListChanged=True,
                resourceSubscriptions=["x://1"],
            )
            lists = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
            assert agreed["notifications"] == (dict.fromkeys(lists, True) if list_changed else {}) | (
                {"resourceSubscriptions": ["x://1"]} if subscribe else {}
            )
        elif subscribe:
            assert await result(peer, "resources/subscribe", uri="x://1") == {}
        else:
            assert (await error(peer, "resources/subscribe", uri="x://1"))["code"] == -32601
            assert (await error(peer, "resources/unsubscribe", uri="x://1"))["code"] == -32601
        app.resources.changed("x://1")
        app.resources.add("x://new", "")
        app.tools.add(lambda: "", name="new")
        app.prompts.add(lambda: "", name="new")
        expected = {"notifications/resources/updated"} if subscribe else set()
        if list_changed:
            expected |= {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
        told = {(await peer.notification())["method"] for _ in expected}
        assert told == expected
        assert await silence(peer)


@pytest.mark.parametrize("revision", ALL)
async def test_empty_kinds_are_neither_declared_nor_announced_and_their_lists_are_empty(
    revision: str,
) -> None:
    app = Server("s")
    async with memory.connect(app, revision) as peer:
        for method, params in {
            "resources/read": {"uri": "x://1"},
            "tools/call": {"name": "t"},
            "prompts/get": {"name": "p"},
        }.items():
            found = await error(peer, method, **params)
            assert found["code"] == -32601
        for method, members in {
            "resources/list": "resources",
            "resources/templates/list": "resourceTemplates",
            "tools/list": "tools",
            "prompts/list": "prompts",
        }.items():
            assert (await result(peer, method))[members] == []
        if revision == LATEST:
            capabilities = (await result(peer, "server/discover"))["capabilities"]
            assert not {"tools", "prompts", "resources", "completions"} & set(capabilities)
            _, agreed = await listen(peer, toolsListChanged=True, resourcesListChanged=True)
            assert agreed["notifications"] == {}
        app.tools.add(lambda: "", name="t")
        assert (await result(peer, "tools/list"))["tools"] != []
        app.prompts.add(lambda: "", name="p")
        await result(peer, "prompts/list")
        for _ in range(3):
            await asyncio.sleep(0)
        assert peer._notifications.empty()


# Subscribing, in a session


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_session_hears_of_what_it_subscribed_to_until_it_unsubscribes(revision: str) -> None:
    app = everything()
    async with memory.connect(app, revision) as peer:
        app.resources.changed("x://1")
        await result(peer, "resources/subscribe", uri="x://1")
        await result(peer, "resources/subscribe", uri="x://1")
        app.resources.changed("x://2")
        assert await silence(peer)
        app.resources.changed("x://1")
        note = await peer.notification()
        assert note == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://1"}}
        assert await result(peer, "resources/unsubscribe", uri="x://1") == {}
        assert await result(peer, "resources/unsubscribe", uri="x://1") == {}
        app.resources.changed("x://1")
        assert await silence(peer)


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_subscribing_to_an_impossible_uri_is_refused(revision: str) -> None:
    app = everything()
    async with memory.connect(app, revision) as peer:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            for uri, code in {"x://3": -32002, "z://1": -32002, "no uri": -32602}.items():
                found = await error(peer, method, uri=uri)
                reason = {"reason": "invalid"} if uri == "no uri" else {}
                assert (found["code"], found["data"]) == (code, {"uri": uri} | reason)
            assert await result(peer, method, uri="y://anything") == {}


@pytest.mark.slow
async def test_the_number_of_subscriptions_is_limited_and_the_limit_is_said() -> None:
    app = everything()
    async with memory.connect(app, NOVEMBER) as peer:
        for number in range(Limits().max_subscriptions):
            assert "result" in peer.start("resources/subscribe", {"uri": f"y://{number}"}).result()
        found = await error(peer, "resources/subscribe", uri="y://more")
        assert (found["code"], str(Limits().max_subscriptions) in found["message"]) == (-32602, True)
        assert await result(peer, "resources/subscribe", uri="y://7") == {}
        await result(peer, "resources/unsubscribe", uri="y://7")
        assert await result(peer, "resources/subscribe", uri="y://more") == {}
    async with memory.connect(app, LATEST) as peer:
        uris = [f"y://{number}" for number in range(Limits().max_subscriptions + 1)]
        found = await error(peer, "subscriptions/listen", notifications={"resourceSubscriptions": uris})
        assert (found["code"], str(Limits().max_subscriptions) in found["message"]) == (-32602, True)
    assert len(app.endpoint.runtime.hub) == 0
    assert app.endpoint.budget.used == 0


async def test_subscriptions_count_as_kept_for_the_client_until_they_end() -> None:
    app = everything()
    app.limits = Limits(max_kept_bytes_per_client=50_000)
    async with memory.connect(app, NOVEMBER) as peer:
        opened = app.endpoint.budget.used
        assert await result(peer, "resources/subscribe", uri="y://1") == {}
        assert await result(peer, "resources/subscribe", uri="y://1") == {}
        number = 1
        while "result" in (answer := await peer.request("resources/subscribe", {"uri": f"y://{number}"})):
            number += 1
        assert "max_kept_bytes_per_client" in answer["error"]["message"]
        assert opened < app.endpoint.budget.used <= 50_000
        for gone in range(1, number):
            await result(peer, "resources/unsubscribe", uri=f"y://{gone}")
        assert app.endpoint.budget.used == opened
    async with memory.connect(app, LATEST) as peer:
        uris = [f"y://{number}" for number in range(200)]
        found = await error(peer, "subscriptions/listen", notifications={"resourceSubscriptions": uris})
        assert "max_kept_bytes_per_client" in found["message"]
        peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris[:3]}}, id="listening")
        await peer.notification()
        assert app.endpoint.budget.used > 0
        peer.notify("notifications/cancelled", {"requestId": "listening"})
        assert await result(peer, "server/discover")
        while app.endpoint.budget.used:
            await asyncio.sleep(0)


# Listening, without a session


async def test_a_listener_is_acknowledged_first_and_hears_what_it_asked_for_with_its_id() -> None:
    app = everything()
    async with memory.connect(app) as peer:
        stream, params = await listen(peer, toolsListChanged=True, resourceSubscriptions=["x://1", "y://z", "gone:1"])
        id = peer._ids
        assert params == {
            "_meta": {ID: id},
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x://1", "y://z"]},
        }
        app.resources.changed("x://1")
        assert await peer.notification() == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"_meta": {ID: id}, "uri": "x://1"},
        }
        app.tools.add(lambda: "", name="new")
        assert await peer.notification() == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {ID: id}},
        }
        app.prompts.add(lambda: "", name="new")
        app.resources.add("x://new", "")
        app.resources.changed("x://2")
        assert await silence(peer)
        assert not stream.done()


@pytest.mark.parametrize("id", [0, 7, -1, "", "seven", "7", '"quoted"\\', "糖", "x" * 1000])
async def test_the_id_of_a_listener_comes_back_exactly(id: Any) -> None:
    app = everything()
    async with memory.connect(app) as peer:
        stream = peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x://1"]}}, id=id)
        found = [(await peer.notification())["params"]["_meta"][ID]]
        app.resources.changed("x://1")
        found.append((await peer.notification())["params"]["_meta"][ID])
        app.endpoint.end_streams()
        reply = await asyncio.wait_for(stream, 60)
        found += [reply["id"], reply["result"]["_meta"][ID]]
        assert found == [id] * 4
        assert {type(one) for one in found} == {type(id)}
        assert reply["result"]["resultType"] == "complete"


async def test_several_listeners_on_one_connection_are_told_apart() -> None:
    app = everything()
    async with memory.connect(app) as peer:
        first, _ = await listen(peer, resourceSubscriptions=["x://1", "x://2"])
        one = peer._ids
        _, _ = await listen(peer, resourceSubscriptions=["x://2"], toolsListChanged=True)
        two = peer._ids
        app.resources.changed("x://1", "x://2")
        app.tools.add(lambda: "", name="new")
        told = set()
        for _ in range(4):
            note = await peer.notification()
            told.add((note["params"]["_meta"][ID], note["params"].get("uri")))
        assert told == {(one, "x://1"), (one, "x://2"), (two, "x://2"), (two, None)}
        peer.notify("notifications/cancelled", {"requestId": one})
        await result(peer, "resources/list")  # the cancellation has been handled
        app.resources.changed("x://2")
        assert (await peer.notification())["params"]["_meta"][ID] == two
        assert await silence(peer)
        assert not first.done(), "a cancelled request is not answered"


async def test_a_listener_without_a_wish_is_acknowledged_and_hears_nothing() -> None:
    app = everything()
    async with memory.connect(app) as peer:
        _, params = await listen(peer, toolsListChanged=False)
        assert params["notifications"] == {}
        app.tools.add(lambda: "", name="new")
        app.resources.changed("x://1")
        assert await silence(peer)


async def test_streams_end_gracefully_when_the_server_stops() -> None:
    app = everything()
    async with memory.connect(app) as peer:
        streams = [(await listen(peer, toolsListChanged=True))[0] for _ in range(3)]
        app.resources.changed("x://1")
        app.endpoint.end_streams()
        replies = await asyncio.wait_for(asyncio.gather(*streams), 60)
        assert all(reply["result"]["resultType"] == "complete" for reply in replies)
    assert len(app.endpoint.runtime.hub) == 0


async def test_pending_notifications_are_sent_before_the_end() -> None:
    app = everything()
    async with memory.connect(app) as peer:
        stream, _ = await listen(peer, resourceSubscriptions=["x://1"])
        app.resources.changed("x://1")
        assert await updated(peer) == "x://1"
        app.resources.changed("x://1")  # held back for a moment, as it was told just now
        app.endpoint.end_streams()
        await asyncio.wait_for(stream, 60)
        assert await updated(peer) == "x://1"


async def test_both_eras_may_listen_on_one_connection() -> None:
    app = everything()
    async with memory.connect(app, OLDEST) as peer:
        await result(peer, "resources/subscribe", uri="x://1")
        peer._stateless, peer.revision = True, LATEST
        await listen(peer, resourceSubscriptions=["x://1"])
        app.resources.changed("x://1")
        notes = [await peer.notification(), await peer.notification()]
        assert sorted("_meta" in note["params"] for note in notes) == [False, True]


# Spelling


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize("spelled", ["x://caf%C3%A9", "x://café", "X://caf%c3%a9", "x://c%61f%c3%a9"])
@pytest.mark.parametrize("changed", ["x://caf%C3%A9", "x://café"])
async def test_a_client_hears_of_a_resource_as_it_spelled_it(revision: str, spelled: str, changed: str) -> None:
    app = Server("s")
    app.resources.add("x://café", "")
    async with memory.connect(app, revision) as peer:
        if revision == LATEST:
            _, params = await listen(peer, resourceSubscriptions=[spelled])
            assert params["notifications"]["resourceSubscriptions"] == [spelled]
        else:
            await result(peer, "resources/subscribe", uri=spelled)
        app.resources.changed(changed)
        assert await updated(peer) == spelled
        if revision != LATEST:
            await result(peer, "resources/unsubscribe", uri="x://café")
            app.resources.changed(changed)
            assert await silence(peer)


async def test_a_member_of_a_template_is_named_as_it_was_asked_for() -> None:
    app = Server("s")
    app.resource("book://{author}/{title}")(lambda author, title: f"{author} {title}")
    async with memory.connect(app) as peer:
        await listen(peer, resourceSubscriptions=["book://Lem/Solaris"])
        app.resources.changed("book://Lem/Solaris")
        uri = await updated(peer)
        contents = (await result(peer, "resources/read", uri=uri))["contents"]
        assert contents[0]["text"] == "Lem Solaris"


def test_reporting_a_change_of_an_invalid_uri_does_no_harm() -> None:
    everything().resources.changed("no uri", "", "\ud800")


# What is a change


@pytest.mark.parametrize("revision", [OLDEST, LATEST])
async def test_each_change_of_the_resources_is_told_to_those_whom_it_concerns(revision: str) -> None:
    app = everything()
    async with memory.connect(app, revision) as peer:
        if revision == LATEST:
            await listen(peer, resourcesListChanged=True, resourceSubscriptions=["x://1"])
        else:
            await result(peer, "resources/subscribe", uri="x://1")

        async def told(count: int) -> set[str]:
            return {
                (await peer.notification())["method"].removeprefix("notifications/resources/") for _ in range(count)
            }

        app.resources.add("x://3", "")
        assert await told(1) == {"list_changed"}
        app.resource("z://{a}")(lambda a: a)
        assert await told(1) == {"list_changed"}
        app.resources.replace("x://1", "other")
        assert await told(2) == {"list_changed", "updated"}
        app.resources.remove("x://3")
        assert await told(1) == {"list_changed"}
        app.resources.remove("z://{a}")
        assert await told(1) == {"list_changed"}
        assert await silence(peer)


async def test_tools_and_prompts_announce_each_change_too() -> None:
    app = everything()
    async with memory.connect(app, JUNE) as peer:
        for change, kind in (
            (lambda: app.tools.add(lambda: "", name="new"), "tools"),
            (lambda: app.tools.add(lambda: "", name="new", replace=True), "tools"),
            (lambda: app.tools.remove("new"), "tools"),
            (lambda: app.prompts.add(lambda: "", name="new"), "prompts"),
            (lambda: app.prompts.remove("new"), "prompts"),
        ):
            change()
            assert (await peer.notification())["method"] == f"notifications/{kind}/list_changed"
        assert await silence(peer)


# Storms


@pytest.mark.slow
async def test_a_storm_of_changes_is_a_few_notifications() -> None:
    app = everything()
    async with memory.connect(app, NOVEMBER) as peer:
        await result(peer, "resources/subscribe", uri="x://1")
        for number in range(10_000):
            app.resources.add(f"x://storm/{number}", "")
            app.resources.changed("x://1")
        assert {(await peer.notification())["method"] for _ in range(2)} == {
            "notifications/resources/updated",
            "notifications/resources/list_changed",
        }
        assert await silence(peer)


async def test_the_first_change_is_told_at_once_and_those_after_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "QUIET", 3600.0)
    app = everything()
    async with memory.connect(app, NOVEMBER) as peer:
        await result(peer, "resources/subscribe", uri="x://1")
        app.resources.changed("x://1")
        await updated(peer)
        app.resources.changed("x://1")
        assert await silence(peer)


async def test_the_last_change_is_never_lost() -> None:
    app = everything()
    async with memory.connect(app, NOVEMBER) as peer:
        await result(peer, "resources/subscribe", uri="x://1")
        app.resources.changed("x://1")
        await updated(peer)
        app.resources.changed("x://1")
        app.resources.changed("x://1")
        await updated(peer)
        assert await silence(peer)
        app.resources.changed("x://1")
        await updated(peer)


async def test_one_resource_that_changes_all_the_time_does_not_silence_the_others() -> None:
    app = everything()
    async with memory.connect(app, NOVEMBER) as peer:
        for uri in ("x://1", "x://2"):
            await result(peer, "resources/subscribe", uri=uri)
        for number in range(50):
            app.resources.changed("x://1")
            if number == 20:
                app.resources.changed("x://2")
            await asyncio.sleep(0)
        while await updated(peer) != "x://2":
            pass


# From where, and when


@pytest.mark.parametrize("revision", [OLDEST, LATEST])
async def test_changes_may_be_told_from_any_thread(revision: str) -> None:
    app = everything()
    async with memory.connect(app, revision) as peer:
        if revision == LATEST:
            await listen(peer, resourcesListChanged=True, resourceSubscriptions=["x://1"])
        else:
            await result(peer, "resources/subscribe", uri="x://1")
        thread = threading.Thread(target=lambda: (app.resources.changed("x://1"), app.resources.add("x://3", "")))
        thread.start()
        methods = {(await peer.notification())["method"] for _ in range(2)}
        thread.join()
        assert methods == {"notifications/resources/updated", "notifications/resources/list_changed"}


async def test_many_threads_at_once_do_no_harm() -> None:
    app = everything()

    def work(number: int) -> None:
        for step in range(50):
            app.resources.add(f"x://{number}/{step}", "")
            app.resources.changed(f"x://{number}/{step}")
            app.resources.replace(f"x://{number}/{step}", "other")

    async with memory.connect(app, NOVEMBER) as peer:
        await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(8)))
        assert (await peer.notification())["method"] == "notifications/resources/list_changed"
        found = []
        params: dict[str, Any] = {}
        while True:
            page = await result(peer, "resources/list", **params)
            found += [item["uri"] for item in page["resources"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert len(found) == len(set(found)) == 2 + 8 * 50


async def test_changes_before_the_start_and_after_the_end_send_no_notifications() -> None:
    app = everything()
    app.resources.changed("x://1")
    async with memory.connect(app, NOVEMBER) as peer:
        await result(peer, "resources/subscribe", uri="x://1")
        assert await silence(peer)
    app.resources.changed("x://1")
    app.resources.add("x://3", "")
    await asyncio.to_thread(app.resources.changed, "x://1")
    assert peer._notifications.empty()
    assert len(app.endpoint.runtime.hub) == 0


def test_a_server_that_runs_again_on_another_event_loop_tells_changes_again() -> None:
    app = everything()

    async def once() -> None:
        async with memory.connect(app, NOVEMBER) as peer:
            await result(peer, "resources/subscribe", uri="x://1")
            app.resources.changed("x://1")
            assert await updated(peer) == "x://1"
            app.resources.changed("x://1")  # held back, and then the loop is gone

    for _ in range(3):
        asyncio.run(once())


async def test_a_client_that_went_away_is_forgotten() -> None:
    app = everything()
    await app.endpoint.start()
    try:
        peers = [MemoryPeer(app, LATEST) for _ in range(3)]
        for peer in peers:
            await listen(peer, resourceSubscriptions=["x://1"], toolsListChanged=True)
        assert len(app.endpoint.runtime.hub) == 3
        await peers[0].dispatcher.close()
        assert len(app.endpoint.runtime.hub) == 2
        app.resources.changed("x://1")
        assert [await updated(peer) for peer in peers[1:]] == ["x://1", "x://1"]
        assert peers[0]._notifications.empty()
        for peer in peers[1:]:
            await peer.dispatcher.close()
        assert len(app.endpoint.runtime.hub) == 0
        assert app.endpoint.runtime.hub._by_uri == {}
    finally:
        await app.endpoint.stop()


# Sources


class Lively(Numbers):
    """A source that says what its test tells it to say."""

    def __init__(self) -> None:
        super().__init__("live", 3)
        self.changes: asyncio.Queue[Collection[Change] | Exception] = asyncio.Queue()

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        yield ()
        while True:
            change = await self.changes.get()
            if isinstance(change, Exception):
                raise change
            yield change


@pytest.mark.parametrize("revision", [JUNE, LATEST])
async def test_changes_of_a_source_reach_its_listeners(revision: str) -> None:
    app, source = Server("s"), Lively()
    app.add_provider(source)
    async with memory.connect(app, revision) as peer:
        if revision == LATEST:
            await listen(peer, resourcesListChanged=True, resourceSubscriptions=["live:1"])
        else:
            await result(peer, "resources/subscribe", uri="live:1")
        source.changes.put_nowait([Change("changed", "live:1"), Change("changed", "live:2")])
        assert await updated(peer) == "live:1"
        source.changes.put_nowait([Change("created", "live:9")])
        assert (await peer.notification())["method"] == "notifications/resources/list_changed"
        source.changes.put_nowait([Change("removed", "live:1")])
        assert {(await peer.notification())["method"] for _ in range(2)} == {
            "notifications/resources/updated",
            "notifications/resources/list_changed",
        }


async def test_a_source_that_can_no_longer_be_watched_is_logged_and_still_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, source = Server("s"), Lively()
    app.add_provider(source)
    async with memory.connect(app, JUNE) as peer:
        source.changes.put_nowait(OSError("inotify is exhausted"))
        (watch,) = app.endpoint.watches._watches.values()
        await asyncio.wait_for(asyncio.gather(watch.task, return_exceptions=True), 60)
        assert (await result(peer, "resources/read", uri="live:1"))["contents"][0]["text"] == "live:1"
    assert len(caplog.records) == 1


# The hub itself


class Slow:
    """A channel whose reader is behind: of messages with the same key, only the last one is kept."""

    def __init__(self) -> None:
        self.held: dict[Hashable, bytes] = {}

    def send(self, message: bytes, key: Hashable = None) -> None:
        self.held[key] = message

    async def drain(self) -> None: ...

    def pause(self, retry: int | None = None) -> None: ...


async def test_for_a_slow_reader_repeated_changes_become_one_but_listeners_stay_apart() -> None:
    hub, channel = Hub(), Slow()
    for tag in (1, "1", None):
        revision = REVISIONS[NOVEMBER if tag is None else LATEST]
        hub.open(Subscription(channel, revision, frozenset({"tools_list_changed"}), {"a:b": "a:b"}, tag=tag))
    for _ in range(3):
        hub.changed(["a:b"], {"tools_list_changed": None})
        hub._flush()
    messages = [json.loads(message) for message in channel.held.values()]
    tags = [message.get("params", {}).get("_meta", {}).get(ID) for message in messages]
    assert len(messages) == 6
    assert sorted(map(repr, tags)) == sorted(map(repr, [1, "1", None] * 2))
    hub.shut()


async def test_a_change_is_encoded_once_for_a_thousand_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    channels = [Slow() for _ in range(1000)]
    for number, channel in enumerate(channels):
        hub.open(
            Subscription(
                channel, REVISIONS[ALL[number % 5]], uris={"a:b": "a:b"}, tag=number if number % 5 == 4 else None
            )
        )
    encoded = 0
    encode = Hub._encode

    def count(*arguments: Any) -> bytes:
        nonlocal encoded
        encoded += 1
        return encode(*arguments)

    monkeypatch.setattr(Hub, "_encode", count)
    hub.changed(["a:b"])
    hub._flush()
    assert encoded == 5
    assert all(len(channel.held) == 1 for channel in channels)
    hub.shut()


async def test_a_listener_that_goes_away_while_others_are_told_does_no_harm() -> None:
    hub = Hub()

    class Leaving(Slow):
        def send(self, message: bytes, key: Hashable = None) -> None:
            super().send(message, key)
            for entry in entries:
                hub.close(entry)

    entries = [Subscription(Leaving(), REVISIONS[NOVEMBER], frozenset(), {"a:b": "a:b"}) for _ in range(3)]
    for entry in entries:
        hub.open(entry)
    hub.changed(["a:b"])
    hub._flush()
    hub.close(entries[0])
    assert len(hub) == 0
    hub.shut()


def test_the_filter_says_nothing_it_was_not_asked() -> None:
    assert msgspec.json.encode(SubscriptionFilter()) == b"{}"


# requirement: 2026-07-28:basic/patterns/cancellation#top-1
@pytest.mark.requirement
async def test_a_listener_that_the_server_gives_up_is_told_by_a_cancellation() -> None:
    app = capabilities.everything()
    async with memory.connect(app, LATEST) as peer:
        stream = peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="mine")
        await peer.notification()
        app.endpoint.end_streams()
        assert "result" in await asyncio.wait_for(stream, 60)
        assert not peer._notifications.empty()
        told = await peer.notification()
        assert (told["method"], told["params"]["requestId"]) == (CANCELLED, "mine")


# requirement: 2026-07-28:basic/patterns/cancellation#top-1b
@pytest.mark.requirement
async def test_nothing_but_a_listener_is_cancelled_by_the_server() -> None:
    app = capabilities.everything()
    begun = asyncio.Event()

    @app.tool()
    async def slow(context: Context) -> str:
        context.report_progress(1)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @app.tool()
    async def broken() -> str:
        inner = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(inner.cancel)
        return await inner

    async with memory.connect(app, LATEST, elicitation={}) as peer:
        peer.start("tools/call", {"name": "slow"}, id="slow")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify(CANCELLED, {"requestId": "slow"})
        await peer.request("tools/call", {"name": "broken"})
        assert (await result(peer, "tools/call", name="talk"))["resultType"] == "complete"
        told = []
        while not peer._notifications.empty():
            told.append(await peer.notification())
    assert [message for message in told if message["method"] == CANCELLED] == []


async def test_a_listener_that_the_client_cancels_hears_of_no_later_change() -> None:
    app = everything()
    async with memory.connect(app, LATEST) as peer:
        peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x://1"]}}, id="mine")
        await peer.notification()
        # Both messages arrive in one read.
        peer.notify(CANCELLED, {"requestId": "mine"})
        app.resources.changed("x://1")
        assert await silence(peer)
