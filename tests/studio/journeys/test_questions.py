"""A server asks: forms accepted and declined, a page after its host was shown, two questions at once, sampling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, Route, expect

from studio.journeys.conftest import Visit
from support.browser import Person

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVER = str(Path(__file__).parents[2] / "support/servers/asking.py")


async def call(me: Person, name: str) -> tuple[Locator, Locator]:
    """Call a tool without arguments; return the dialog of its question, and its result."""
    await me.see("tab", "Tools").click()
    await me.see("grid", "Tools").get_by_role("row", name=re.compile(f"^{name}")).click()
    preview = me.region("Preview")
    await expect(preview.get_by_role("heading", name=name)).to_be_visible()
    await preview.get_by_role("button", name="Call").click()
    return me.see("dialog", "asking"), preview.get_by_role("region", name="Result")


async def test_a_form_is_filled_in_and_accepted(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        dialog, result = await call(me, "order")
        await expect(dialog).to_contain_text("asking asks")
        await expect(dialog).to_contain_text("Which book?")
        await expect(dialog.get_by_role("button", name="Accept")).to_be_disabled()
        await dialog.get_by_role("textbox", name="Title").fill("Solaris")
        await dialog.get_by_role("combobox", name="size").select_option("large")
        await dialog.get_by_role("textbox", name="copies").fill("0")
        await dialog.get_by_role("button", name="Accept").click()
        await expect(dialog).to_contain_text("does not match the form")
        await dialog.get_by_role("textbox", name="copies").fill("3")
        await dialog.get_by_role("button", name="Accept").click()
        await expect(dialog).to_be_hidden()
        await expect(result).to_contain_text("accept: [('copies', 3), ('size', 'large'), ('title', 'Solaris')]")


async def test_a_form_is_declined_or_postponed(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        dialog, result = await call(me, "order")
        await dialog.get_by_role("button", name="Decline").click()
        await expect(result).to_contain_text("decline: []")
        await me.region("Preview").get_by_role("button", name="Call").click()
        await expect(dialog).to_be_visible()
        await me.page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        # the question waits in the drawer
        await me.see("tablist", "Tools of the page").get_by_role("tab", name="Questions").click()
        await me.see("button", "Answer").click()
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(result).to_contain_text("cancel: []")


async def test_a_page_is_opened_after_its_host_was_shown(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        opened: list[str] = []

        async def answer(route: Route) -> None:
            opened.append(route.request.url)
            await route.fulfill(body="library")

        await me.page.context.route("https://library.example/**", answer)
        dialog, result = await call(me, "log_in")
        await expect(dialog.get_by_text("library.example", exact=True)).to_be_visible()
        await expect(dialog).to_contain_text("https://library.example/login?next=%2F")
        assert opened == []
        async with me.page.context.expect_page() as opening:
            await dialog.get_by_role("button", name="Accept").click()
        page = await opening.value
        await page.wait_for_load_state()
        assert opened == ["https://library.example/login?next=%2F"]
        assert await page.evaluate("[document.referrer, String(opener)]") == ["", "null"]
        await expect(result).to_contain_text("login: accept")


async def test_two_questions_at_once_come_one_after_the_other(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        dialog, result = await call(me, "both")
        await expect(dialog).to_contain_text("1 more question waits after this one.")
        first = "name" if await dialog.get_by_text("Your name?").count() else "town"
        second = {"name": "town", "town": "name"}[first]
        await dialog.get_by_role("textbox").first.fill("Ada")
        await dialog.get_by_role("button", name="Accept").click()
        await expect(dialog).to_contain_text(f"Your {second}?")
        await expect(dialog.get_by_role("textbox").first).to_have_value("")
        await dialog.get_by_role("button", name="Decline").click()
        await expect(result).to_contain_text("accept Ada")
        await expect(result).to_contain_text("decline None")


async def test_a_question_ends_with_its_call(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        dialog, _ = await call(me, "order")
        await expect(dialog).to_be_visible()
        await dialog.get_by_role("button", name="Later").click()
        await me.region("Preview").get_by_role("button", name="Cancel").click()
        await expect(me.see("tablist", "Tools of the page").get_by_role("tab", name="Questions")).to_have_text(
            "Questions"
        )
