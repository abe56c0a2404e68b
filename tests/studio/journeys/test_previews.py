"""Previews: a PDF page by page, HTML without its scripts, Markdown without its comments; tables, logs and code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
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


async def test_data_are_shown_as_tables_and_code_with_its_words(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/stock.csv").write_text('name,price\n"lamp, red",12\nchair,30\n')
    (tmp_path / "files/app.log").write_text(
        '2026-11-28T10:00:00Z ERROR the tea is cold\n2026-11-28T10:00:01Z INFO "hot"\n'
    )
    (tmp_path / "files/data.json").write_text('{"deep": {"er": [1, 12345678901234567890]}}')
    (tmp_path / "files/raw.bin").write_bytes(bytes(range(64)))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("create table orders(id integer primary key, what text)")
        database.executemany(
            "insert into orders values (?, ?)", [(number, f"lamp {number}") for number in range(1, 151)]
        )
    async with visit(str(tmp_path / "files"), f"sqlite:///{tmp_path}/shop.db") as me:
        await me.ready("files", "shop")
        tree, preview = me.see("tree", "Resources"), me.region("Preview")
        table = preview.get_by_role("table")

        # rows of a database, page by page, and its schema
        await me.see("searchbox", "Search resources").fill("orders")
        await tree.get_by_role("treeitem", name="Rows of orders").click()
        await expect(table.get_by_role("columnheader")).to_have_text(["id", "what"])
        await expect(table.get_by_role("cell").nth(1)).to_have_text("lamp 1")
        await preview.get_by_role("link", name="Next rows").click()
        await expect(table.get_by_role("cell").nth(1)).to_have_text("lamp 101")
        await expect(preview.get_by_role("link", name="Next rows")).to_have_count(0)
        await me.page.go_back()
        await expect(table.get_by_role("cell").nth(1)).to_have_text("lamp 1")
        await preview.get_by_role("button", name="Tree", exact=True).click()
        await expect(preview.get_by_role("tabpanel")).to_contain_text("columns")

        await me.see("searchbox", "Search resources").fill("")
        await tree.get_by_role("treeitem", name="stock.csv").click()
        await expect(table.get_by_role("cell").first).to_have_text("lamp, red")
        await tree.get_by_role("treeitem", name="app.log").click()
        await expect(preview.locator(".hljs-deletion")).to_have_text("ERROR")
        await expect(preview.locator(".hljs-string")).to_have_text('"hot"')
        await tree.get_by_role("treeitem", name="data.json").click()
        await preview.get_by_role("button", name="er: 2 items").click()
        await expect(preview.get_by_role("tabpanel")).to_contain_text("1: 12345678901234567890")
        await tree.get_by_role("treeitem", name="raw.bin").click()
        await expect(preview).to_contain_text("30 31 32 33")
