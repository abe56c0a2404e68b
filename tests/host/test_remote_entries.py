"""Long lists of a remote server: each entry is decoded once, in slices between which other work goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel.catalog.paging import all_of
from carrel.catalog.provider import ListChanges, ListName, Recipients, Request
from carrel.errors import ResourceTooLarge
from carrel.host import processor_limiter, remote_pages, remote_tools
from carrel.host.remote import RemoteProvider
from support.scripted_server import Partner, on_http

SESSION = "2025-11-25"
COUNT = 5000
DEEP: list[Any] = []
for _ in range(120):
    DEEP = [DEEP]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def tools(count: int) -> list[dict[str, Any]]:
    return [{"name": f"tool{number}", "inputSchema": SCHEMA} for number in range(count)]


class Events:
    """Events of a provider, which count."""

    def __init__(self) -> None:
        self.published = 0

    def publish(
        self, changes: Any = (), lists: ListChanges | list[ListName] = (), recipients: Recipients | None = None
    ) -> None:
        self.published += 1


@asynccontextmanager
async def far(partner: Partner) -> AsyncIterator[RemoteProvider]:
    async with on_http(partner) as url:
        provider = RemoteProvider(url, name="far")
        await provider.start(Events())
        try:
            yield provider
        finally:
            await provider.stop()


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with the turn of the event loop in which each tool of a server is looked at."""
    found: list[int] = []
    usual = remote_tools.header_parameters

    def look(schema: Any) -> Any:
        found.append(TURN[0])
        return usual(schema)

    monkeypatch.setattr(remote_tools, "header_parameters", look)
    return found


TURN = [0]


async def count_turns() -> None:
    while True:
        TURN[0] += 1
        await asyncio.sleep(0)


async def test_each_entry_of_a_fetched_list_is_looked_at_once(looked_at: list[int]) -> None:
    partner = Partner(SESSION, {"tools/list": {"tools": tools(COUNT)}})
    async with far(partner) as provider:
        assert len(looked_at) == COUNT * len(partner.sent_of("tools/list"))
        looked_at.clear()
        found = [tool.name async for tool in all_of(provider.list_tools)]
    assert found == [tool["name"] for tool in tools(COUNT)]
    assert len(looked_at) == COUNT


async def test_other_work_has_its_turn_while_a_long_list_is_looked_at(looked_at: list[int]) -> None:
    counting = asyncio.ensure_future(count_turns())
    async with far(Partner(SESSION, {"tools/list": {"tools": tools(COUNT)}})):
        pass
    counting.cancel()
    most = max(looked_at.count(turn) for turn in set(looked_at))
    assert most <= processor_limiter.SLICE // processor_limiter.EACH


async def test_the_sessions_of_a_server_share_its_turns() -> None:
    work = processor_limiter.ProcessorLimiter()
    slices: list[int] = []
    counting = asyncio.ensure_future(count_turns())
    await asyncio.gather(*(work.each(range(3000), lambda _: slices.append(TURN[0])) for _ in range(10)))
    counting.cancel()
    assert max(slices.count(turn) for turn in set(slices)) <= 2 * processor_limiter.SLICE // processor_limiter.EACH


async def test_a_page_with_too_many_entries_is_refused_before_one_is_looked_at(
    looked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_pages, "MAX_LISTED", COUNT - 1)
    async with far(Partner(SESSION, {"tools/list": {"tools": tools(COUNT)}})) as provider:
        with pytest.raises(ResourceTooLarge):
            await provider.list_tools(Request())
    assert looked_at == []


async def test_a_long_list_whose_changes_are_announced_is_fetched_once_for_all_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_pages, "LONG", 1000)
    partner = Partner(SESSION, {"tools/list": {"tools": tools(COUNT)}})
    async with far(partner) as provider:
        before = len(partner.sent_of("tools/list"))
        for _ in range(5):
            assert len((await provider.list_tools(Request(limit=10))).items) == 10
        assert len(partner.sent_of("tools/list")) == before


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"name": "x" * 300}, "300 characters"),
        ({"name": "a\u202eb"}, "cannot be seen"),
        ({"name": "a\nb"}, "cannot be seen"),
        ({"name": "a\u3164b"}, "cannot be seen"),
        ({"name": ""}, "is empty"),
        ({"description": "x" * 1_100_000}, "bytes"),
        ({"inputSchema": {"a": [[[]] * 200, DEEP]}}, "levels"),
        ({"inputSchema": 5}, "inputSchema"),
        ({"annotations": []}, "annotations"),
    ],
)
async def test_an_entry_that_cannot_be_offered_is_left_out_and_logged_once(
    entry: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    usual = {"name": "usual", "inputSchema": SCHEMA}
    partner = Partner(SESSION, {"tools/list": {"tools": [{**usual, **entry}, usual, {**usual, **entry}]}})
    with caplog.at_level(logging.WARNING):
        async with far(partner) as provider:
            assert [tool.name for tool in (await provider.list_tools(Request())).items] == ["usual"]
    [message] = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert message.startswith("far: an entry of its tools is left out: ")
    assert reason in message
    assert message.isprintable()


async def test_titles_lose_what_cannot_be_seen_and_are_cut() -> None:
    title = "Find\r\n\u202eall\u200b " + "x" * 100_000
    entry = {"uri": "a://1", "name": "one\ntwo", "title": title, "description": "two\nlines"}
    async with far(Partner(SESSION, {"resources/list": {"resources": [entry]}})) as provider:
        [found] = (await provider.list_resources(Request())).items
    assert found.title is not None
    assert found.title.startswith("Find all xxx")
    assert (len(found.title), found.title[-1]) == (256, "…")
    assert (found.name, found.description) == ("one two", "two\nlines")


@pytest.mark.parametrize("title", ["Наташа", "日本語 タイトル", "می‌خواهم", "👩‍💻 Developer", "❤️", "Crème brûlée"])
async def test_titles_of_all_languages_stay_as_they_are(title: str) -> None:
    entry = {"uri": "a://1", "name": title, "title": title}
    async with far(Partner(SESSION, {"resources/list": {"resources": [entry]}})) as provider:
        [found] = (await provider.list_resources(Request())).items
    assert (found.name, found.title) == (title, title)


async def test_a_page_of_a_tool_has_a_uri_of_the_scheme_ui() -> None:
    meta = {"ui": {"resourceUri": "file:///etc/passwd", "visibility": ["app"]}, "ui/resourceUri": "https://example.org"}
    good = {"ui": {"resourceUri": "ui://a/b"}, "ui/resourceUri": "ui://a/b"}
    listed = [{"name": f"t{n}", "inputSchema": SCHEMA, "_meta": each} for n, each in enumerate((meta, good))]
    async with far(Partner(SESSION, {"tools/list": {"tools": listed}})) as provider:
        found = (await provider.list_tools(Request())).items
    assert [tool.meta for tool in found] == [{"ui": {"visibility": ["app"]}}, good]
