"""A question, in English and in Chinese, becomes the context that ``carrel context`` packs, is changed and copied."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from studio.journeys.conftest import Visit
from support.browser import Person
from support.carrel_process import carrel

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

QUESTIONS = ("how is green tea brewed?", "绿茶怎么冲泡？")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nGreen tea is brewed at seventy degrees for two minutes.\n")
    (folder / "black.md").write_text("# Black tea\n\nBlack tea is brewed with boiling water.\n")
    (folder / "茶.md").write_text("# 茶\n\n绿茶用七十度的水冲泡两分钟。\n")
    (folder / "wine.md").write_text("# Wine\n\nRed wine is served at room temperature.\n")
    return folder


def packed(notes: Path, question: str, *arguments: str) -> Any:
    """What ``carrel context`` packs."""
    done = carrel("context", str(notes), question, "--format", "json", "--budget", "4000", "--quiet", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def ask(me: Person, question: str) -> Locator:
    """Ask a question, and return the list of what is in the context."""
    context = me.region("Context")
    await context.get_by_role("searchbox", name="Question").fill(question)
    await context.get_by_role("button", name="Choose for me").click()
    await expect(context.get_by_role("meter", name="Tokens")).to_be_visible()
    return context.get_by_role("list", name="In context")


async def has(items: Locator, titles: Sequence[str]) -> None:
    """Wait until a list has items that begin with titles, in their order."""
    await expect(items.get_by_role("link")).to_have_text([re.compile(re.escape(title)) for title in titles])


@pytest.mark.parametrize("question", QUESTIONS)
async def test_the_context_of_a_question_is_that_of_the_command(visit: Visit, notes: Path, question: str) -> None:
    expected = packed(notes, question)
    async with visit(str(notes)) as me:
        await me.ready("notes")
        items = await ask(me, question)
        await has(items, [item["title"] for item in expected["items"]])
        for at, item in enumerate(expected["items"]):
            await expect(items.get_by_role("listitem").nth(at)).to_contain_text(item["reason"])
        meter = me.see("meter", "Tokens")
        assert int(await meter.get_attribute("aria-valuenow") or 0) >= expected["tokens"]  # names of servers count
        await expect(meter).to_have_attribute("aria-valuemax", "4000")


async def test_a_server_that_cannot_be_started_is_named_as_not_searched(
    visit: Visit, notes: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"broken": {"command": str(tmp_path / "absent")}}}))
    async with visit(str(notes), str(file)) as me:
        await me.ready("notes")
        await expect(me.region("Servers").get_by_role("listitem", name="broken")).to_contain_text("cannot be started")
        await ask(me, QUESTIONS[0])
        context = me.region("Context")
        await expect(context).to_contain_text("Not searched, as there is no connection: broken.")
        await expect(context).not_to_contain_text("choose again later")


async def test_a_context_is_pinned_changed_kept_within_its_budget_and_copied(visit: Visit, notes: Path) -> None:
    question = QUESTIONS[0]
    chosen = [item["title"] for item in packed(notes, question)["items"]]
    assert "tea.md" in chosen
    assert "wine.md" not in chosen
    async with visit(str(notes)) as me:
        await me.ready("notes")
        items, context = await ask(me, question), me.region("Context")
        await has(items, chosen)

        # by hand, from the preview: what is pinned comes first
        await me.see("treeitem", "wine.md").click()
        await me.region("Preview").get_by_role("button", name="Add to context").click()
        await has(items, ["wine.md", *chosen])
        await expect(items.get_by_role("listitem").first).to_contain_text("pinned")

        # removed, and said so
        black = items.get_by_role("listitem").filter(has_text="black.md")
        await black.get_by_role("button", name="Remove").click()
        await expect(black).to_have_count(0)
        left = context.get_by_role("list", name="Left out").get_by_role("listitem")
        await expect(left.filter(has_text="black.md")).to_contain_text("excluded")

        # the same as the command says
        uri = (notes / "wine.md").as_uri()
        without = (notes / "black.md").as_uri()
        expected = packed(notes, question, "--pin", uri, "--without", without)
        await has(items, [item["title"] for item in expected["items"]])

        # copied as Markdown and as XML, with citations
        await context.get_by_role("button", name="Copy").click()
        await expect(me.see("status").filter(has_text="Copied")).to_be_visible()
        command = carrel(
            *("context", str(notes), question, "--budget", "4000", "--quiet", "--pin", uri, "--without", without),
            text=True,
        )
        markdown = await me.copied()
        assert markdown.replace(">, notes\n", ">\n").strip() == command.stdout.strip()
        await context.get_by_role("combobox", name="Format").select_option("XML")
        await context.get_by_role("button", name="Copy").click()
        await expect(me.see("status").filter(has_text="Copied")).to_be_visible()
        async with asyncio.timeout(60):  # the earlier message "Copied" may still be there
            while not (await me.copied()).startswith("<context>"):
                await asyncio.sleep(0.1)
        assert uri in await me.copied()

        # saved as a file
        async with me.page.expect_download() as saving:
            await context.get_by_role("button", name="Save").click()
        saved = await saving.value
        assert saved.suggested_filename == "context.xml"
        assert Path(await saved.path()).read_text(encoding="utf-8") == await me.copied()

        # in another order: items are pinned then, until they are unpinned
        await items.get_by_role("listitem").first.get_by_role("button", name="Move down").click()
        await has(items, ["tea.md", "wine.md"])
        tea = items.get_by_role("listitem").filter(has_text="tea.md")
        await expect(tea).to_contain_text("pinned")
        await tea.get_by_role("button", name="Unpin").click()
        await expect(tea).not_to_contain_text("pinned")
        await has(items, ["wine.md", "tea.md"])
        await tea.get_by_role("button", name="Pin", exact=True).click()
        await expect(tea).to_contain_text("pinned")

        # a smaller budget leaves out more
        budget = context.get_by_role("spinbutton", name="Token budget")
        await budget.fill("60")
        await budget.press("Tab")
        meter = me.see("meter", "Tokens")
        await expect(meter).to_have_attribute("aria-valuemax", "60")
        assert int(await meter.get_attribute("aria-valuenow") or 0) <= 60
        assert "budget=60" in me.page.url

        # a link fills in a question, and chooses nothing before the click
        await context.get_by_role("button", name="Clear").click()
        asked: list[str] = []
        me.page.on("request", lambda request: asked.append(request.url))
        await me.page.goto(f"{me.origin}/context?question=what+is+red%3F&budget=500")
        await me.ready("notes")
        await expect(context.get_by_role("searchbox", name="Question")).to_have_value("what is red?")
        await expect(budget).to_have_value("500")
        await expect(meter).to_have_count(0)
        assert [url for url in asked if url.endswith("/api/context")] == []
        await context.get_by_role("button", name="Choose for me").click()
        await has(items, ["wine.md"])


async def test_a_changed_resource_is_marked_and_packed_again(visit: Visit, notes: Path) -> None:
    async with visit(str(notes)) as me:
        await me.ready("notes")
        items = await ask(me, QUESTIONS[0])
        tea = items.get_by_role("listitem").filter(has_text="tea.md")
        await expect(tea).to_be_visible()
        await tea.get_by_role("link", name="tea.md").click()
        await expect(me.region("Preview")).to_contain_text("seventy degrees")
        (notes / "tea.md").write_text("# Tea\n\nGreen tea is brewed at eighty degrees for two minutes.\n")
        await expect(tea).to_contain_text("changed since")
        await me.see("button", "Pack again").click()
        await expect(tea).not_to_contain_text("changed since")
        await me.region("Context").get_by_role("button", name="Copy").click()
        await expect(me.see("status").filter(has_text="Copied")).to_be_visible()
        assert "eighty degrees" in await me.copied()
