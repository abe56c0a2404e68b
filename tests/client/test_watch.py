"""Hearing of changes in both eras, over every transport, and across lost connections."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from carrel import Client, Server
from carrel.client.retry import Retries
from carrel.client.watch import MAX_WAITING, Watch, WatchEvent
from carrel.errors import MCPError, MethodNotFound, PeerError, ProtocolError
from carrel.protocol.client import ServerNotification
from carrel.wire.resources import ResourceUpdatedParams
from support.http_process import free_port, restart, serving
from support.scripted_server import Partner, connected
from support.servers.demo import ALL, HANDSHAKES, LATEST, NOVEMBER, WAYS, make_shelf, reach

QUICK = Retries(first=0.01, longest=0.02)
EVERYWHERE = pytest.mark.parametrize(
    ("way", "revision"), [(way, revision) for way in WAYS for revision in (NOVEMBER, LATEST)]
)


async def following(watch: Watch) -> WatchEvent:
    """The next change, or a failure if there is none for long."""
    return await asyncio.wait_for(anext(watch), 60)


@EVERYWHERE
async def test_a_change_of_a_watched_resource_is_heard(way: str, revision: str) -> None:
    async with reach(way, revision) as client, client.watch("memo://1", "memo://2") as changes:
        assert changes.refused == ()
        await client.call_tool("touch", {"number": 3})
        await client.call_tool("touch", {"number": 2})
        assert await following(changes) == WatchEvent("resource", "memo://2")


@EVERYWHERE
async def test_a_change_of_a_list_is_heard(way: str, revision: str) -> None:
    async with reach(way, revision) as client, client.watch(lists=["resources"]) as changes:
        await client.call_tool("put", {"number": 1})
        assert await following(changes) == WatchEvent("resources")
        assert "memo://new/1" in [resource.uri async for resource in client.list_resources()]


@pytest.mark.parametrize("revision", ALL)
async def test_two_watches_of_one_resource_hear_both(revision: str) -> None:
    async with reach("memory", revision) as client, client.watch("memo://1") as first:
        async with client.watch("memo://1", "memo://2") as second:
            await client.call_tool("touch", {"number": 1})
            assert await following(first) == await following(second) == WatchEvent("resource", "memo://1")
        await client.call_tool("touch", {"number": 1})
        assert await following(first) == WatchEvent("resource", "memo://1")


async def test_repeated_changes_before_the_next_look_are_one_change() -> None:
    client: Any = None
    watch = Watch(client, [], ())
    for uri in ("memo://1", "memo://1", "memo://2", "memo://1"):
        watch.put(WatchEvent("resource", uri))
    assert [await following(watch), await following(watch)] == [
        WatchEvent("resource", "memo://1"),
        WatchEvent("resource", "memo://2"),
    ]
    assert not watch._changes


async def test_a_change_within_a_watched_resource_is_heard() -> None:
    client: Any = None
    watch = Watch(client, ["files:///folder"], ())
    watch.take_notice(ServerNotification("resource_updated", ResourceUpdatedParams(uri="files:///folderol/x")))
    watch.take_notice(ServerNotification("resource_updated", ResourceUpdatedParams(uri="files:///folder/x")))
    assert await following(watch) == WatchEvent("resource", "files:///folder/x")


async def test_an_unread_watch_reports_missed_changes_and_is_bounded() -> None:
    client: Any = None
    watch = Watch(client, [], ())
    for number in range(MAX_WAITING + 1):
        watch.put(WatchEvent("resource", f"memo://{number}"))
    assert await following(watch) == WatchEvent("missed")


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_watch_that_is_left_ends_the_subscription(revision: str) -> None:
    app = make_shelf()
    async with Client(app, revision=revision) as client:
        async with client.watch("memo://1"):
            assert "memo://1" in app.endpoint.runtime.hub._by_uri
        async with asyncio.timeout(60):
            while app.endpoint.runtime.hub._by_uri:
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_waiting_for_a_change_ends_with_the_watch(revision: str) -> None:
    async with reach("memory", revision) as client:
        watch = client.watch("memo://1")
        await watch.start()
        waiting = asyncio.create_task(collect(watch))
        await asyncio.sleep(0)
        await watch.close()
        assert await asyncio.wait_for(waiting, 60) == []


async def collect(watch: Watch) -> list[WatchEvent]:
    return [change async for change in watch]


async def test_the_end_of_the_client_is_the_end_of_its_watches() -> None:
    async with reach("memory") as client:
        watch = client.watch("memo://1")
        await watch.start()
        waiting = asyncio.create_task(collect(watch))
        await asyncio.sleep(0)
    assert await asyncio.wait_for(waiting, 60) == []


@pytest.mark.parametrize("revision", ALL)
async def test_a_server_without_subscriptions_says_so(revision: str) -> None:
    plain = Server("plain", subscribe=False)
    plain.resources.add("memo://1", "one", name="one")
    async with Client(plain, revision=revision) as client:
        try:
            async with client.watch("memo://1") as changes:
                assert changes.refused == ("memo://1",)
        except MethodNotFound:
            assert revision in HANDSHAKES


@pytest.mark.slow
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_after_a_lost_process_it_is_started_again_and_something_may_have_been_missed(revision: str) -> None:
    async with reach("stdio", revision, retries=QUICK) as client, client.watch("memo://1") as changes:
        await client.call_tool("touch", {"number": 1})
        assert await following(changes) == WatchEvent("resource", "memo://1")
        transport: Any = (await client.session.connect()).transport
        os.killpg(transport.pid, signal.SIGKILL)
        assert await following(changes) == WatchEvent("missed")
        assert (await client.session.connect()).transport is not transport
        await client.call_tool("touch", {"number": 1})
        assert await following(changes) == WatchEvent("resource", "memo://1")


@pytest.mark.slow
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_after_a_server_was_restarted_it_is_listened_to_again(revision: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with (
        serving(port),
        Client(url, revision=revision, retries=QUICK) as client,
        client.watch("memo://1") as changes,
    ):
        await client.call_tool("touch", {"number": 1})
        assert await following(changes) == WatchEvent("resource", "memo://1")
        await restart(port)
        assert await following(changes) == WatchEvent("missed")
        await client.call_tool("touch", {"number": 1})
        assert await following(changes) == WatchEvent("resource", "memo://1")


async def test_a_refusal_after_the_beginning_ends_the_watch_with_its_reason() -> None:
    async with reach("memory", LATEST) as client:
        watch = client.watch("memo://1")
        await watch.start()
        watch._fail(PeerError(-32603, "no more"))
        with pytest.raises(MCPError, match="no more"):
            await following(watch)
        await watch.close()


@pytest.mark.slow
async def test_a_server_that_ends_a_subscription_without_acknowledging_it_is_not_asked_again() -> None:
    partner = Partner(LATEST, {"subscriptions/listen": {"resultType": "complete"}})
    async with connected(partner) as client:
        with pytest.raises(ProtocolError, match="without acknowledging it"):
            await asyncio.wait_for(client.watch(lists=["tools"]).start(), 60)
    assert len(partner.sent_of("subscriptions/listen")) == 1
