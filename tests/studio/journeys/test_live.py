"""Files that change on disk: the preview follows, the difference is shown, and the stream of events comes back."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support.chaos import write_chaos

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

PLAN = "# Plan\n\nWe meet on Monday.\n\nBring tea.\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "plan.md").write_text(PLAN)
    (folder / "other.md").write_text("# Other\n")
    return folder


async def test_an_edited_file_is_shown_with_its_difference(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        preview = me.region("Preview")
        await me.see("treeitem", "other.md").click()
        await expect(preview.get_by_role("heading", name="Other", exact=True)).to_be_visible()
        asked: list[str] = []
        me.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        await me.see("treeitem", "plan.md").click()
        await expect(preview).to_contain_text("on Monday")
        needed = {"/api/contents", "/api/interest", "/api/items"}  # items: the title, if the contents take 250 ms
        assert {path for path in asked if path.startswith("/api/")} <= needed
        await expect(preview.get_by_role("tab", name="Changes")).to_have_count(0)
        (notes / "plan.md").write_text(PLAN.replace("Monday", "Tuesday"))
        await expect(preview).to_contain_text("on Tuesday")
        await preview.get_by_role("tab", name="Changes").click()
        changes = preview.get_by_role("region", name="Changes")
        await expect(changes).to_contain_text(re.compile("removed: ?We meet on Monday."))
        await expect(changes).to_contain_text(re.compile("added: ?We meet on Tuesday."))
        await expect(changes).to_contain_text("Bring tea.")
        await expect(preview).to_contain_text("1 line added")
        assert "view=changes" in me.page.url

        # a second change, while the difference is shown
        (notes / "plan.md").write_text(PLAN.replace("Monday", "Friday"))
        await expect(changes).to_contain_text(re.compile("removed: ?We meet on Tuesday."))
        await expect(changes).to_contain_text(re.compile("added: ?We meet on Friday."))


async def test_new_and_removed_files_appear_and_vanish_around_the_selected_one_beside_servers_that_hang_and_die(
    visit: Visit, notes: Path, tmp_path: Path
) -> None:
    write_chaos(tmp_path / "mcp.json", 10)
    async with visit(str(notes), str(tmp_path / "mcp.json")) as me:
        await me.ready("notes")
        selected = me.see("treeitem", "plan.md")
        await selected.click()
        (notes / "a new one.md").write_text("# New\n")
        await expect(me.see("treeitem", "a new one.md")).to_be_visible()
        (notes / "other.md").unlink()
        await expect(me.see("treeitem", "other.md")).to_have_count(0)
        await expect(selected).to_have_attribute("aria-selected", "true")
        await expect(me.region("Preview")).to_contain_text("on Monday")


async def test_a_lost_stream_is_told_comes_back_and_misses_nothing(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        await me.see("treeitem", "plan.md").click()
        await expect(me.region("Preview")).to_contain_text("on Monday")
        await expect(me.see("status").filter(has_text="Live")).to_be_visible()
        await me.page.route("**/api/events?*", lambda route: route.abort())
        await me.page.evaluate("stop()")
        await expect(me.see("status").filter(has_text="Connection lost")).to_be_visible()
        (notes / "plan.md").write_text(PLAN.replace("Monday", "Sunday"))
        await me.page.unroute("**/api/events?*")
        await expect(me.see("status").filter(has_text="Live")).to_be_visible()
        await expect(me.region("Preview")).to_contain_text("on Sunday")
