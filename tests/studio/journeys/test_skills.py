"""Skills of a folder: read, verified on request, and what a wrong file is called in the language of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_a_skill_is_read_and_all_its_files_are_checked(visit: Visit, tmp_path: Path) -> None:
    skill = tmp_path / "gardening"
    (skill / "notes").mkdir(parents=True)
    head = "---\nname: gardening\ndescription: How to keep a garden\n---\n"
    (skill / "SKILL.md").write_text(f"{head}# Keep a garden\n\nSee [water](notes/water.md).\n")
    (skill / "notes/water.md").write_text("Once a day.\n")
    async with visit(f"skills:{tmp_path}", viewport={"width": 390, "height": 844}, locale="de-DE") as me:
        await me.page.get_by_role("tab", name="Skills").click()
        await me.see("grid", "Skills").get_by_role("row").first.click()
        preview = me.region("Vorschau")
        await expect(preview.get_by_role("heading", name="gardening", exact=True)).to_be_visible()
        await expect(preview.get_by_role("heading", name="Keep a garden")).to_be_visible()
        files = preview.get_by_role("list", name="Dateien")
        await expect(files.get_by_role("listitem").filter(has_text="SKILL.md")).to_contain_text("passt")
        await expect(files.get_by_role("listitem").filter(has_text="water.md")).to_contain_text("nicht gelesen")
        await preview.get_by_role("button", name="Alle Dateien prüfen").click()
        await expect(preview.get_by_role("status").filter(has_text="Alle 2 Dateien passen zur Liste")).to_be_visible()
        address = me.page.url
        await me.page.goto(address)
        await expect(preview.get_by_role("heading", name="Keep a garden")).to_be_visible()
        await preview.get_by_role("link", name="water", exact=True).click()
        await expect(preview).to_contain_text("Once a day.")
