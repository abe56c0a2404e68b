"""Templates with completion, and tools: the form and the JSON are one truth; progress, cancel, confirmation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from studio.journeys.conftest import Visit
from support.browser import Person

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVER = str(Path(__file__).parents[2] / "support/servers/asking.py")


async def choose(me: Person, kind: str, title: str) -> Locator:
    """Open a template or a tool, and return the preview."""
    await me.see("tab", kind).click()
    await me.see("grid", kind).get_by_role("row", name=re.compile(f"^{title}")).click()
    await expect(me.region("Preview").get_by_role("heading", name=title)).to_be_visible()
    return me.region("Preview")


async def test_a_template_is_filled_in_with_suggestions_and_read(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        preview = await choose(me, "Templates", "Weather of a day")
        read = preview.get_by_role("button", name="Read")
        await expect(read).to_be_disabled()
        country = preview.get_by_role("combobox", name="country")
        await country.press_sequentially("ge")
        await preview.get_by_role("option", name="germany").click()
        await expect(country).to_have_value("germany")
        # the earlier value decides what is suggested
        city = preview.get_by_role("combobox", name="city")
        await city.focus()
        await expect(preview.get_by_role("option")).to_have_text(["Berlin", "Bonn"])
        await city.press("ArrowDown")
        await city.press("ArrowDown")
        await city.press("Enter")
        await expect(city).to_have_value("Bonn")
        await preview.get_by_role("combobox", name="day").fill("May 1/2")
        await expect(preview).to_contain_text("weather://germany/Bonn/May%201%2F2")
        await read.click()
        await expect(preview).to_contain_text("On May 1/2 the sun shines in Bonn, germany.")


async def test_form_and_json_of_a_tool_are_one_truth(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        preview = await choose(me, "Tools", "Find somebody")
        await expect(preview).to_contain_text("only reads")
        text = preview.get_by_role("textbox", name="Arguments as JSON")
        assert json.loads(await text.input_value()) == {"limit": 3}
        await preview.get_by_role("textbox", name="Name").fill("Ada")
        await preview.get_by_role("textbox", name="number").fill("12345678901234567890")
        await preview.get_by_role("textbox", name="near").fill("[1.50, 2]")
        assert '"number": 12345678901234567890' in await text.input_value()
        assert "[1.50, 2]" in await text.input_value()
        # what is typed as JSON stays as it is typed, and the form shows it
        await text.fill('{ "name":"Eva",   "extra": {"a": 1}, "limit": null }')
        await expect(preview.get_by_role("textbox", name="Name")).to_have_value("Eva")
        await preview.get_by_role("textbox", name="Name").fill("Eve")
        await expect(text).to_have_value('{ "name":"Eve",   "extra": {"a": 1}, "limit": null }')
        await text.fill('{ "name": ')
        await expect(preview).to_contain_text("This is not valid JSON")
        await expect(preview.get_by_role("button", name="Call")).to_be_disabled()
        await text.fill('{"name": "Eve", "near": "home"}')
        await preview.get_by_role("button", name="Call").click()
        result = preview.get_by_role("region", name="Result")
        await expect(result).to_contain_text("found [('name', 'Eve'), ('near', 'home')]")
        # arguments that fit neither choice: the server says so
        await text.fill("{}")
        await preview.get_by_role("button", name="Call").click()
        await expect(result).to_contain_text("The tool reports an error")
        # the address has the arguments, and calls nothing
        await text.fill('{"name": "Eve"}')
        await expect(me.page).to_have_url(re.compile(r"args=%7B%22name%22%3A\+%22Eve%22%7D$"))
        await me.page.reload()
        await expect(text).to_have_value('{"name": "Eve"}')
        await expect(result).to_have_count(0)


async def test_a_long_call_shows_its_progress_and_is_cancelled(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        preview = await choose(me, "Tools", "count")
        await preview.get_by_role("button", name="Call").click()
        await expect(preview.get_by_role("progressbar")).to_have_attribute("value", "1")
        await expect(preview).to_contain_text("one of four")
        await expect(preview).to_contain_text("1 of 4")
        await preview.get_by_role("button", name="Cancel").click()
        await expect(preview.get_by_role("progressbar")).to_have_count(0)
        await expect(preview.get_by_role("button", name="Call")).to_be_enabled()


async def test_a_call_that_may_destroy_is_confirmed(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        preview = await choose(me, "Tools", "burn")
        await expect(preview).to_contain_text("may destroy data")
        await preview.get_by_role("textbox", name="paper").fill("letters")
        await preview.get_by_role("button", name="Call").click()
        dialog = me.see("dialog")
        await expect(dialog).to_contain_text("letters")
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(preview.get_by_role("region", name="Result")).to_have_count(0)
        await preview.get_by_role("button", name="Call").click()
        await dialog.get_by_role("button", name="Call it").click()
        await expect(preview.get_by_role("region", name="Result")).to_contain_text("burnt letters")


async def test_a_task_continues_while_the_page_is_loaded_again(visit: Visit) -> None:
    async with visit(SERVER) as me:
        await me.ready("asking")
        preview = await choose(me, "Tools", "Bake bread")
        tasks = preview.get_by_role("region", name="Tasks")
        await preview.get_by_role("textbox", name="loaves").fill("12")
        await preview.get_by_role("button", name="Start as a task").click()
        await expect(tasks.get_by_role("listitem", name="bake, working")).to_contain_text("1 of 12 in the oven")
        await me.page.reload()
        await expect(tasks.get_by_role("listitem", name="bake, working")).to_contain_text("1 of 12 in the oven")
        # a second one, which asks a question and has a result
        await preview.get_by_role("textbox", name="loaves").fill("3")
        await preview.get_by_role("button", name="Start as a task").click()
        dialog = me.see("dialog")
        await expect(dialog).to_contain_text("How large is the last one?")
        await dialog.get_by_role("button", name="Decline").click()
        done = tasks.get_by_role("listitem", name="bake, completed")
        await done.get_by_role("button", name="Result").click()
        await expect(done.get_by_role("region", name="Result")).to_contain_text("3 loaves, decline")
        # the drawer has both, and cancels the first
        await me.see("tab", "Tasks 1").click()
        drawer = me.see("tabpanel", "Tasks")
        await expect(drawer.get_by_role("listitem")).to_have_count(2)
        await drawer.get_by_role("button", name="Cancel").click()
        await expect(drawer.get_by_role("listitem", name="bake, cancelled")).to_be_visible()
        await drawer.get_by_role("button", name="Remove").last.click()
        await expect(drawer.get_by_role("listitem")).to_have_count(1)
