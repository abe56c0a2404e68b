"""What is kept of a server's answers, for which requests, and for whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.client.cache import Cache
from carrel.client.client import Client
from carrel.client.handlers import Handlers
from carrel.transports.client.options import HTTPOptions
from support.scripted_server import Partner, connected, in_turn, on_http, required

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


FRESH = {"ttlMs": 60_000, "cacheScope": "private"}


def read(text: str = "x", **hints: Any) -> dict[str, Any]:
    return {"contents": [{"uri": "a:b", "text": text}], "resultType": "complete", **hints}


@pytest.fixture
async def cache() -> Any:
    async with Cache() as cache:
        yield cache


async def test_fresh_results_are_not_requested_again_and_others_are(cache: Cache) -> None:
    partner = Partner(answers={"resources/read": read(**FRESH)})
    async with connected(partner, cache=cache) as client:
        for uri in ("a:b", "a:b", "a:c", "a:b", "A:b", "a:%62"):
            await client.read_resource(uri)
    assert [message["params"]["uri"] for message in partner.sent_of("resources/read")] == ["a:b", "a:c", "A:b", "a:%62"]


async def test_results_of_rounds_are_not_kept(cache: Cache) -> None:
    async def fill_in(_: Any) -> dict[str, Any]:
        return {}

    ask = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    for asked in (required({"q": ask}, "s"), required({"q": ask}), required(state="s")):
        partner = Partner(answers={"resources/read": in_turn(asked, read("one", **FRESH), asked, read("two", **FRESH))})
        async with connected(partner, cache=cache, handlers=Handlers(elicit_form=fill_in)) as client:
            first, second = (await client.read_resource("a:b")).contents, (await client.read_resource("a:b")).contents
        assert [each[0].text for each in (first, second)] == ["one", "two"]  # type: ignore[union-attr]
        assert len(partner.sent_of("resources/read")) == 4


@pytest.mark.parametrize("hints", [{}, {"ttlMs": 0, "cacheScope": "public"}, {"ttlMs": -5, "cacheScope": "public"}])
async def test_stale_results_are_requested_each_time(cache: Cache, hints: Any) -> None:
    partner = Partner(answers={"resources/read": read(**hints)})
    async with connected(partner, cache=cache) as client:
        await client.read_resource("a:b")
        await client.read_resource("a:b")
    assert len(partner.sent_of("resources/read")) == 2


@pytest.mark.parametrize(("scope", "asked"), [("private", 2), ("public", 1)])
async def test_private_results_are_cached_per_principal(cache: Cache, scope: str, asked: int) -> None:
    class Who:
        def __init__(self, principal: str) -> None:
            self.principal = principal
            self.extensions: Any = {}

        async def headers(self, url: str, method: str = "POST") -> dict[str, str]:
            return {"Authorization": f"Bearer {self.principal}"}

        async def rejected(self, _: Any) -> bool:
            return False

        async def close(self) -> None:
            pass

    partner = Partner(answers={"resources/read": read(ttlMs=60_000, cacheScope=scope)})
    async with on_http(partner) as url:
        for principal in ("one", "two", "one"):
            async with Client(url, cache=cache, http=HTTPOptions(auth=Who(principal))) as client:
                await client.read_resource("a:b")
    assert len(partner.sent_of("resources/read")) == asked


async def test_a_change_notification_makes_cached_results_stale(cache: Cache) -> None:
    partner = Partner(
        answers={"resources/read": read(**FRESH), "tools/list": {"tools": [], "resultType": "complete", **FRESH}}
    )
    async with connected(partner, cache=cache) as client, client.watch("a:b", lists=["tools"]) as changes:
        id = partner.sent_of("subscriptions/listen")[0]["id"]
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        for _ in range(2):
            await client.read_resource("a:b")
            _ = await client.list_tools()
        partner.notify("notifications/resources/updated", {"uri": "a:b", **meta})
        partner.notify("notifications/tools/list_changed", meta)
        async with asyncio.timeout(60):
            await anext(changes)
            await anext(changes)
        for _ in range(2):
            await client.read_resource("a:b")
            _ = await client.list_tools()
    assert len(partner.sent_of("resources/read")) == 2
    assert len(partner.sent_of("tools/list")) == 2


async def test_an_answer_that_was_overtaken_by_a_change_is_not_kept(cache: Cache) -> None:
    partner = Partner()

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        listening = partner.sent_of("subscriptions/listen")[0]["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": listening}
        partner.notify("notifications/resources/updated", {"uri": "a:b", "_meta": meta})
        return read("old", **FRESH)

    partner.answers["resources/read"] = answer
    async with connected(partner, cache=cache) as client, client.watch("a:b"):
        await client.read_resource("a:b")
        await client.read_resource("a:b")
    assert len(partner.sent_of("resources/read")) == 2
