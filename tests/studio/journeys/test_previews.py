"""Previews of documents: a PDF page by page, HTML without its scripts, Markdown without its comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support import documents

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_documents_are_shown_page_by_page_and_pages_of_the_web_without_scripts(
    visit: Visit, tmp_path: Path
) -> None:
    (tmp_path / "paper.pdf").write_bytes(documents.pdf(pages=3))
    (tmp_path / "site.html").write_text("<h1>Opening hours</h1><script>document.body.textContent = 'ran'</script>")
    (tmp_path / "note.md").write_text("<!-- for the editor -->\n# Note\n\nText <!-- hidden -->goes on.\n")
    async with visit(str(tmp_path)) as me:
        tree, preview = me.see("tree", "Resources"), me.region("Preview")

        await tree.get_by_role("treeitem", name="paper.pdf", exact=True).click()
        await expect(preview.get_by_role("status").filter(has_text="of 3 pages")).to_be_visible()
        first = await preview.get_by_role("region", name="paper.pdf").inner_text()
        await preview.get_by_role("button", name="Next").click()
        await expect(preview.get_by_role("spinbutton", name="Page")).to_have_value("2")
        await expect(preview.get_by_role("region", name="paper.pdf")).not_to_have_text(first)
        await preview.get_by_role("spinbutton", name="Page").fill("3")
        await preview.get_by_role("spinbutton", name="Page").press("Enter")
        await expect(preview.get_by_role("button", name="Next")).to_be_disabled()

        await tree.get_by_role("treeitem", name="site.html", exact=True).click()
        shown = preview.frame_locator("iframe")
        await expect(shown.get_by_role("heading", name="Opening hours")).to_be_visible()
        await preview.get_by_role("tab", name="Text").click()
        await expect(preview.get_by_text("Opening hours")).to_be_visible()

        await tree.get_by_role("treeitem", name="note.md", exact=True).click()
        await expect(preview).to_contain_text("Text goes on.")
        await expect(preview).not_to_contain_text("editor")
        await expect(preview).not_to_contain_text("hidden")
