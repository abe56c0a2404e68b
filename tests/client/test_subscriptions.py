"""Changes: subscriptions that are told apart, and begun again when a connection was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.client.watch import WatchEvent
from support.scripted_server import Partner, connected
from support.server_connection import HANDSHAKES, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def updated(partner: Partner, uri: str, id: Any) -> None:
    meta = {} if id is None else {"_meta": {SUBSCRIPTION: id}}
    partner.notify("notifications/resources/updated", {"uri": uri, **meta})


async def following(changes: Any) -> WatchEvent:
    async with asyncio.timeout(60):
        change: WatchEvent = await anext(changes)
        return change


async def test_notifications_over_one_pipe_are_told_apart_by_their_subscription() -> None:
    partner = Partner()
    async with connected(partner) as client, client.watch("a:1") as one, client.watch("a:1", "a:2") as two:
        first, second = (message["id"] for message in partner.sent_of("subscriptions/listen"))
        assert first != second
        updated(partner, "a:1", second)
        updated(partner, "a:2", second)
        updated(partner, "a:1", "another")
        updated(partner, "a:1", 999)
        assert await following(two) == WatchEvent("resource", "a:1")
        assert await following(two) == WatchEvent("resource", "a:2")
        updated(partner, "a:1", first)
        assert await following(one) == WatchEvent("resource", "a:1")
        await client.read_resource("a:b")
        assert not one._changes, "it has heard of one change, not of three"


async def test_a_listener_asks_for_what_is_wanted_and_for_nothing_else() -> None:
    partner = Partner()
    async with connected(partner) as client:
        async with client.watch("a:1", lists=["tools"]):
            pass
        async with client.watch(lists=["resources", "prompts"]):
            pass
    wanted = [message["params"]["notifications"] for message in partner.sent_of("subscriptions/listen")]
    assert wanted == [
        {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]},
        {"promptsListChanged": True, "resourcesListChanged": True},
    ]


@pytest.mark.parametrize("revision", [*HANDSHAKES, LATEST])
async def test_a_watch_listens_again_after_the_program_was_started_again(revision: str) -> None:
    method = "subscriptions/listen" if revision == LATEST else "resources/subscribe"
    partner = Partner(revision)
    async with connected(partner) as client, client.watch("a:1") as changes:
        await partner.until(method)
        partner.hang_up()  # type: ignore[attr-defined]
        again = await partner.until(method, 2)
        assert partner.starts == 2
        assert await following(changes) == WatchEvent("missed")
        updated(partner, "a:1", again["id"] if revision == LATEST else None)
        assert await following(changes) == WatchEvent("resource", "a:1")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_watch_that_ends_tells_the_server(transport: str) -> None:
    partner = Partner()
    async with connected(partner, transport) as client:
        async with client.watch("a:1"):
            listening = await partner.until("subscriptions/listen")
        if transport == "stdio":
            cancelled = await partner.until("notifications/cancelled")
            assert cancelled["params"]["requestId"] == listening["id"]
        else:
            exchange = next(each for each in partner.exchanges if b"subscriptions/listen" in each.body)
            await asyncio.wait_for(exchange.closed.wait(), 60)
        await client.read_resource("a:b")
    assert len(partner.sent_of("subscriptions/listen")) == 1


async def test_a_subscription_that_the_server_ends_is_begun_again() -> None:
    partner = Partner()
    async with connected(partner) as client, client.watch("a:1") as changes:
        first = await partner.until("subscriptions/listen")
        partner.answer(first["id"], {"resultType": "complete", "_meta": {SUBSCRIPTION: first["id"]}})
        second = await partner.until("subscriptions/listen", 2)
        assert await following(changes) == WatchEvent("missed")
        partner.notify("notifications/cancelled", {"requestId": second["id"]})
        third = await partner.until("subscriptions/listen", 3)
        assert await following(changes) == WatchEvent("missed")
        updated(partner, "a:1", second["id"])
        updated(partner, "a:1", third["id"])
        assert await following(changes) == WatchEvent("resource", "a:1")
        await client.read_resource("a:b")
        assert not changes._changes


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_session_subscribes_once_and_unsubscribes_at_the_end(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner) as client:
        async with client.watch("a:1"), client.watch("a:1"):
            assert len(partner.sent_of("resources/subscribe")) == 1
        await partner.until("resources/unsubscribe")
        await client.ping()
    assert [message["params"] for message in partner.sent_of("resources/unsubscribe")] == [{"uri": "a:1"}]


async def test_a_cancellation_that_concerns_nothing_does_no_harm() -> None:
    for revision in (NOVEMBER, LATEST):
        partner = Partner(revision)
        async with connected(partner) as client:
            await client.read_resource("a:b")
            for params in ({"requestId": 1}, {"requestId": "never"}, {}, {"requestId": None}):
                partner.notify("notifications/cancelled", params)
            assert (await client.read_resource("a:b")).contents[0].uri == "a:b"
