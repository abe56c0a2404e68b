"""Hostile contents: nothing of them runs, nothing is loaded from elsewhere, and text is shown as text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support.browser import Person
from support.servers import hostile_contents as hostile

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVER = str(Path(hostile.__file__))
NAMES = str(Path(SERVER).with_name("hostile_names.py"))


async def is_unharmed(me: Person) -> None:
    """Check that no script has run, and that only the closed frame of a document has been refused something."""
    assert "owned" not in await me.page.title()
    assert me.foreign == []
    assert [message for message in me.refused if message.startswith(me.origin)] == []
    me.refused.clear()


async def test_documents_are_shown_and_do_nothing(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("hostile_contents")
        preview = me.region("Preview")

        await me.see("treeitem", "page", exact=True).click()
        frame = preview.frame_locator("iframe")
        await expect(frame.get_by_text("Words of the page")).to_be_visible()
        assert await preview.locator("iframe").get_attribute("sandbox") == ""
        await frame.get_by_role("link", name="click").click()
        await frame.get_by_role("button", name="Log in").click()
        await expect(frame.get_by_text("Words of the page")).to_be_visible()
        await is_unharmed(me)

        await me.see("treeitem", "drawing").click()
        picture = preview.get_by_role("img", name="drawing")
        await expect(picture).to_be_visible()
        await me.page.wait_for_function("document.querySelector('.preview img').naturalWidth === 40")
        await is_unharmed(me)

        await me.see("treeitem", "notes").click()
        await expect(preview).to_contain_text("Words of the notes.")
        await expect(preview).to_contain_text("<script>document.title='owned'")
        for link in await preview.get_by_role("tabpanel").get_by_role("link").all():
            assert re.match("https?://|/s/", await link.get_attribute("href") or "/s/")
        await expect(preview.get_by_role("tabpanel").locator("img, script, iframe, svg")).to_have_count(0)
        await is_unharmed(me)

        for name, words in (("data", "onerror"), ("table", "=cmd()"), ("text", "harmless")):
            await me.see("treeitem", name, exact=True).click()
            await expect(preview.get_by_role("tabpanel")).to_contain_text(words)
            await expect(preview.get_by_role("tabpanel").locator("img, script")).to_have_count(0)
            await is_unharmed(me)


async def test_names_are_shown_without_tricks(visit: Visit) -> None:
    async with visit(SERVER, "--", sys.executable, NAMES) as me:
        await me.ready("hostile_contents", "hostile_names")
        await expect(me.see("treeitem", "harmlessgnp.exe", exact=True)).to_be_visible()
        await expect(me.see("treeitem", "plain]0;owned[31m red", exact=True)).to_be_visible()
        assert not re.search("[\u202e\x1b\x07]", await me.page.locator("body").inner_text())
        await me.see("treeitem", hostile.TAGS, exact=True).click()
        await expect(me.region("Preview").get_by_role("heading")).to_have_text(hostile.TAGS)
        await me.region("Servers").get_by_role("button", name="Details of hostile_contents").click()
        await me.region("Servers").get_by_text("Instructions of the server").click()
        await expect(me.region("Servers")).to_contain_text("<script>document.title")
        await is_unharmed(me)


async def test_tools_and_prompts_are_shown_as_text(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("hostile_contents")
        preview = me.region("Preview")
        await me.see("tab", "Tools").click()
        tool = me.see("grid", "Tools").get_by_role("row").first
        assert (await tool.locator("img").get_attribute("src") or "").startswith("data:image/svg+xml;base64,")
        await tool.click()
        await expect(preview).to_contain_text("<script>document.title='owned'")
        await preview.get_by_role("button", name="Call").click()
        result = preview.get_by_role("region", name="Result")
        await expect(result).to_contain_text("<script>document.title='owned'")
        await me.see("tab", "Prompts").click()
        await me.see("grid", "Prompts").get_by_role("row").first.click()
        await preview.get_by_role("button", name="Get").click()
        await expect(result).to_contain_text("<script>document.title='owned'")
        await is_unharmed(me)
