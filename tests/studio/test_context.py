"""Searches in contents and packed contexts on the page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from carrel.host import Host
from carrel.host.config import ServerConfig
from chat.scripted_model import ScriptedModel
from support.studio_page import Page, folder_server, opened

pytestmark = pytest.mark.slow

HOSTILE = str(Path(__file__).parents[1] / "support/servers/hostile.py")
TEA = "# Tea\n\nGreen tea is brewed at seventy degrees.\n"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    (tmp_path / "tea.md").write_text(TEA)
    (tmp_path / "tea.txt").write_text("Black tea is brewed with boiling water.\n")
    (tmp_path / "茶.md").write_text("# 茶\n\n绿茶用七十度的水冲泡。\n")
    (tmp_path / "wine.md").write_text("# Wine\n\nRed wine is served at room temperature.\n")
    async with opened(folder_server(tmp_path, "notes")) as page:
        await page.ready("notes")
        yield page


async def test_contents_are_searched_by_words_and_filtered_by_fields(page: Page) -> None:
    found = await page.get("/search", q="brewed")
    assert {hit["row"]["name"] for hit in found["hits"]} == {"tea.md", "tea.txt"}
    assert found["complete"] is True
    hit = next(hit for hit in found["hits"] if hit["row"]["name"] == "tea.txt")
    assert hit["row"]["key"]["server"] == "notes"
    assert hit["line"] == 1
    ((start, end),) = hit["marks"]
    assert hit["snippet"][start:end] == "brewed"
    found = await page.get("/search", q="brewed type:text/markdown")
    assert [hit["row"]["name"] for hit in found["hits"]] == ["tea.md"]
    assert [hit["row"]["name"] for hit in (await page.get("/search", q="绿茶"))["hits"]] == ["茶.md"]
    assert (await page.get("/search", q="type:text/markdown"))["hits"] == []


@pytest.mark.parametrize("question", ["how is green tea brewed?", "绿茶怎么冲泡？"])
async def test_a_context_is_the_one_that_the_host_packs(page: Page, question: str) -> None:
    pack = await page.post_and_wait("/context", {"question": question, "budget": 500})
    host: Host = page.studio.host
    expected = await host.context(question, budget=500)
    assert pack["text"] == expected.text
    assert pack["items"]
    assert [item["uri"] for item in pack["items"]] == [item.uri for item in expected.items]
    assert (pack["tokens"], pack["budget"], pack["tokenizer"]) == (expected.tokens, 500, "estimate")
    assert all(item["reason"] for item in pack["items"])
    assert all(item["server"] == "notes" for item in pack["items"])
    assert not any(item["stale"] for item in pack["items"])


async def test_resources_are_pinned_and_left_out(page: Page, tmp_path: Path) -> None:
    wine, tea = (tmp_path / "wine.md").as_uri(), (tmp_path / "tea.md").as_uri()
    body = {"question": "how is tea brewed?", "budget": 500, "pin": [wine], "without": [tea], "format": "xml"}
    pack = await page.post_and_wait("/context", body)
    assert pack["items"][0]["uri"] == wine
    assert pack["text"].startswith("<context>")
    assert {"uri": tea, "reason": "excluded"} in pack["leftOut"]
    only = await page.post_and_wait("/context", {"budget": 500, "pin": [wine]})
    assert [item["uri"] for item in only["items"]] == [wine]
    opened = await page.post_and_wait("/context", {"question": "how is tea brewed?", "budget": 500, "open": [tea]})
    assert [item["reason"].startswith("open, ") for item in opened["items"] if item["uri"] == tea] == [True]
    status, problem = await page.ask("POST", "/context", {"budget": 0})
    assert (status, "budget" in problem["detail"]) == (400, True)


async def test_a_changed_resource_is_packed_again(page: Page, tmp_path: Path) -> None:
    await page.listen()
    question = {"question": "how is green tea brewed?", "budget": 500}
    await page.post_and_wait("/context", question)
    uri = (tmp_path / "tea.md").as_uri()
    await page.get("/contents", server="notes", uri=uri)
    await page.post("/interest", {"keys": [{"server": "notes", "uri": uri}]})
    (tmp_path / "tea.md").write_text(TEA.replace("seventy", "eighty"))
    await page.event(lambda event: event["type"] == "resource")
    assert "eighty degrees" in (await page.post_and_wait("/context", question))["text"]


async def test_a_first_read_is_no_change(page: Page, tmp_path: Path) -> None:
    await page.listen()
    await page.post_and_wait("/context", {"question": "how is green tea brewed?", "budget": 500})
    uri = (tmp_path / "tea.md").as_uri()
    await page.post("/interest", {"keys": [{"server": "notes", "uri": uri}]})
    while page.studio.contents.versions.get("notes", uri) is None:  # it is read when its subscription begins
        await asyncio.sleep(0.02)
    (tmp_path / "tea.md").write_text(TEA.replace("seventy", "eighty"))
    await page.event(lambda event: event["type"] == "resource")
    version = (await page.get("/contents", server="notes", uri=uri))["version"]
    assert [event["version"] for event in page.events if event["type"] == "resource"] == [version]


async def test_the_model_helps_to_choose_if_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(TEA)
    (tmp_path / "wine.md").write_text("# Wine\n\nGreen wine is served cold.\n")
    model = ScriptedModel("green wine", "2 1")
    async with opened(folder_server(tmp_path, "notes"), model=model) as page:
        await page.ready("notes")
        question = {"question": "what is green?", "budget": 500}
        assert (await page.post_and_wait("/context", question))["modelTokens"] == 0
        assert model.requests == []
        assert (await page.post_and_wait("/context", {**question, "askModel": True}))["modelTokens"] == 220
        assert "what is green?" in str(model.requests[0].messages)
    async with opened(folder_server(tmp_path, "notes")) as page:
        await page.ready("notes")
        assert (await page.post_and_wait("/context", {**question, "askModel": True}))["modelTokens"] == 0


async def test_a_question_is_answered_from_the_servers_that_answer(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(TEA)
    hostile = [
        ServerConfig(name=how, command=sys.executable, args=(HOSTILE, how), timeout=600.0)
        for how in ("mute", "dying", "notes", "hoards", "restless")
    ]
    question = {"question": "how is green tea brewed?", "budget": 500}
    async with opened(folder_server(tmp_path, "folder"), *hostile, start_timeout=600.0) as page:
        await page.ready("folder", "hoards", "restless")
        pack = await page.post_and_wait("/context", question)
        assert [item["uri"] for item in pack["items"]] == [(tmp_path / "tea.md").as_uri()]
        assert {"mute", "hoards"} <= set(pack["unread"])
        assert "folder" not in pack["unread"]
        assert "tea.md" in [row["name"] for row in (await page.get("/items", q="server:folder"))["rows"]]
        (tmp_path / "tea.md").write_text(TEA.replace("seventy", "eighty"))
        async with asyncio.timeout(60):  # its change takes a moment to arrive, beside the changes of others
            while "eighty" not in (await page.post_and_wait("/context", question))["text"]:
                await asyncio.sleep(0.1)
        assert (await page.get("/search", q="eighty"))["hits"]
