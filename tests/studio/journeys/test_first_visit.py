"""Somebody who has never heard of MCP opens the link, finds a note, reads it and copies it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

RECIPE = "# Bread\n\nKnead the dough, and let it rise for *two hours*.\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "kitchen").mkdir(parents=True)
    (folder / "kitchen/bread.md").write_text(RECIPE)
    (folder / "kitchen/soup.md").write_text("# Soup\n\nBoil the carrots.\n")
    (folder / "garden.md").write_text("one\ntwo\nRoses need water.\nfour\nRoses again.\n")
    return folder


async def test_a_note_is_found_in_the_tree_read_and_copied(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await expect(me.region("Preview")).to_contain_text("Read it here")
        await me.ready("notes")
        await me.see("tree", "Resources").get_by_role("treeitem", name="kitchen").click()
        await me.see("treeitem", "bread.md").click()
        preview = me.region("Preview")
        await expect(preview.get_by_role("heading", name="bread.md")).to_be_visible()
        await expect(preview.get_by_role("heading", name="Bread", exact=True)).to_be_visible()
        await expect(preview.get_by_role("emphasis")).to_have_text("two hours")
        await preview.get_by_role("button", name="Copy text").click()
        await expect(me.see("status").filter(has_text="Copied")).to_be_visible()
        assert await me.copied() == RECIPE


async def test_a_word_is_found_in_contents_at_its_line(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        await me.page.keyboard.press("/")
        await expect(me.see("searchbox", "Search resources")).to_be_focused()
        await me.page.keyboard.type("roses")
        hit = me.see("list", "In the contents").get_by_role("link", name=re.compile("garden.md"))
        await expect(hit).to_contain_text("line 3")
        await hit.click()
        await expect(me.page).to_have_url(re.compile(r"garden\.md.*#L3"))
        await expect(me.region("Preview").get_by_role("tab", name="Text")).to_have_attribute("aria-selected", "true")
        await expect(me.region("Preview")).to_contain_text("Roses need water.")


async def test_hits_are_those_of_the_text_in_the_search_field(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        field, hits = me.see("searchbox", "Search resources"), me.see("list", "In the contents")
        await field.fill("roses")
        await expect(hits.get_by_role("link")).to_have_count(1)
        await me.page.route("**/api/search?*", lambda route: None)  # the answer to the next question never comes
        await field.fill("carrots")
        await expect(me.see("status").filter(has_text="Searching")).to_be_visible()
        await expect(hits).to_have_count(0)
        await me.page.unroute_all(behavior="ignoreErrors")


async def test_a_link_without_its_token_says_what_to_do(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.page.evaluate("sessionStorage.clear()")
        await me.page.goto(f"{me.origin}/browse")
        await expect(me.page.get_by_text("Open the link that was printed")).to_be_visible()
        await expect(me.see("tree")).to_have_count(0)


async def test_nothing_is_loaded_from_elsewhere(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        await me.see("treeitem", "garden.md").click()
        for tab in ("Templates", "Tools", "Prompts", "Resources"):
            await me.see("tab", tab).click()
        for name in ("Help", "Settings"):
            await me.see("button", name, exact=True).click()
            await me.see("dialog").get_by_role("button", name="Close").click()
        await me.page.keyboard.press("Control+k")
        await expect(me.see("dialog", "Commands")).to_be_visible()
        assert me.foreign == []
        assert me.refused == []
        # what would not be allowed is noticed
        await me.page.evaluate("fetch('http://tracker.example/').catch(() => null)")
        assert any("tracker.example" in message for message in me.refused)
        me.refused.clear()
        me.foreign.clear()
