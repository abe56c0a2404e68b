"""The author of a server finds an invalid answer in the timeline, sends it again with a change, and asks the doctor."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, expect

from studio.journeys.conftest import Visit
from studio.journeys.test_keyboard_and_size import faults, press, too_wide
from support.browser import Person
from support.carrel_process import command

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVERS = Path(__file__).parents[2] / "support/servers"


def asking() -> dict[str, Any]:
    """Return the configuration of a server of ours, which may run in a fork."""
    program, *arguments = command("run", str(SERVERS / "asking.py"))
    return {"command": program, "args": arguments}


@pytest.fixture
def servers(tmp_path: Path) -> str:
    """A file with a server that makes mistakes, and one of ours."""
    file = tmp_path / "mcp.json"
    deficient = {"command": sys.executable, "args": [str(SERVERS / "deficient.py")]}
    file.write_text(json.dumps({"mcpServers": {"deficient": deficient, "asking": asking()}}))
    return str(file)


async def call_sum(me: Person) -> None:
    """Call the tool whose answer is invalid."""
    await me.page.goto(f"{me.origin}/s/deficient/t/sum?args=%7B%22a%22%3A1%2C%22b%22%3A2%7D")
    await me.region("Preview").get_by_role("button", name="Call").click()
    await expect(me.region("Preview").get_by_role("alert")).to_be_visible()


async def flagged(me: Person) -> Locator:
    """Open the timeline with the invalid messages, and return the row of the answer."""
    await me.see("tab", "Wire", exact=True).first.click()
    return await invalid_answer(me)


async def invalid_answer(me: Person) -> Locator:
    """Show only the invalid messages of the timeline, and return the row of the answer."""
    await me.see("combobox", "Which messages").select_option("Only invalid")
    row = me.see("grid", "Messages").get_by_role("row", name=re.compile("response to tools.call sum.*invalid"))
    await expect(row.first).to_be_visible()
    return row


async def test_an_invalid_answer_is_flagged_and_sent_again_with_a_change(visit: Visit, servers: str) -> None:
    async with visit(servers) as me:
        await me.ready("deficient", "asking")
        await call_sum(me)
        await (await flagged(me)).click()
        message = me.region("Message")
        await expect(message).to_contain_text("The schema of 2025-06-18 does not allow this message")
        await expect(message).to_contain_text("CallToolResult/content")
        await expect(me.page).to_have_url(re.compile(r"/wire\?only=invalid&message=\d+"))
        assert await faults(me) == []

        # the address restores the filter and the selection
        await me.page.reload()
        await expect(message).to_contain_text("CallToolResult/content")
        await expect(me.see("combobox", "Which messages")).to_have_value("invalid")

        # the request in the editor: opening it sends nothing
        await message.get_by_role("link", name="Its request").first.click()
        count = me.see("tabpanel", "Wire").get_by_role("status").filter(has_text="message")
        await me.see("combobox", "All methods").select_option("tools/call")
        await me.see("combobox", "Which messages").select_option("All")
        await expect(me.see("grid", "Messages").get_by_role("row").first).to_be_visible()
        row = me.see("grid", "Messages").get_by_role("row", name=re.compile("^(?!.*response).*tools.call sum")).first
        await row.click()
        before = await count.first.text_content()
        await message.get_by_role("button", name="Edit and send again").click()
        editor = message.get_by_role("textbox", name="Request as JSON")
        draft = json.loads(await editor.input_value())
        assert draft["params"]["arguments"] == {"a": 1, "b": 2}
        assert await count.first.text_content() == before
        await editor.fill("{")
        await expect(message.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        draft["params"]["arguments"]["right"] = True
        await editor.fill(json.dumps(draft))
        await message.get_by_role("button", name="Send", exact=True).click()
        answer = message.get_by_role("region", name="The new response")
        await expect(answer).to_contain_text("valid")
        difference = answer.get_by_role("region", name="Difference to the first response")
        await expect(difference).to_contain_text(re.compile(r'removed: ?\s*"content": 3'))
        await expect(difference).to_contain_text(re.compile(r'added: ?\s*"text": "3"'))
        await answer.get_by_role("link", name="Show in the timeline").click()
        await expect(message).to_contain_text("response to tools/call sum")
        assert await faults(me) == []


TICKING = """
import asyncio

from carrel import Context, Server

app = Server("ticking")


@app.tool
async def tick(context: Context) -> None:
    for number in range(100_000):
        await context.report_progress(number)
        await asyncio.sleep(0.02)
"""


async def test_rows_stay_under_a_pressed_pointer_while_messages_come(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "ticking.py").write_text(TICKING)
    async with visit(str(tmp_path / "ticking.py")) as me:
        await me.ready("ticking")
        await me.page.goto(f"{me.origin}/s/ticking/t/tick")
        await me.region("Preview").get_by_role("button", name="Call").click()
        await me.see("tab", "Wire", exact=True).first.click()
        grid = me.see("grid", "Messages")
        row = grid.get_by_role("row", name=re.compile("progress")).last
        await row.hover()
        await me.page.mouse.down()
        before = await grid.get_attribute("aria-rowcount")
        pressed = await grid.locator(".item:hover").get_attribute("aria-rowindex")
        await me.page.wait_for_timeout(1500)
        assert await grid.get_attribute("aria-rowcount") == before
        await me.page.mouse.up()
        await expect(grid.locator("[aria-selected=true]")).to_have_attribute("aria-rowindex", str(pressed))
        await expect(grid).not_to_have_attribute("aria-rowcount", str(before))


async def test_the_timeline_is_filtered_by_server_and_text_and_read_by_keyboard(visit: Visit, servers: str) -> None:
    async with visit(servers) as me:
        await me.ready("deficient", "asking")
        await me.page.goto(f"{me.origin}/wire?server=asking&message=1")
        await me.page.goto(f"{me.origin}/wire?server=asking")
        grid = me.see("grid", "Messages")
        await expect(grid.get_by_role("row", name=re.compile("tools.list")).first).to_be_visible()
        await expect(grid.get_by_role("row", name=re.compile("deficient"))).to_have_count(0)
        await me.see("searchbox", "Search messages").fill("weather of a day")
        await expect(grid).to_have_attribute("aria-rowcount", "1")
        await grid.focus()
        await press(me, "Home", "Enter")
        await expect(me.region("Message")).to_contain_text("response to resources/templates/list")
        await expect(me.page).to_have_url(re.compile(r"server=asking&text=weather\+of\+a\+day&message=\d+"))
        await me.page.go_back()
        await expect(me.region("Message")).to_have_count(0)
        await grid.focus()
        await press(me, "Home", "Enter")
        await me.region("Message").get_by_role("button", name="Back to the list").click()
        await expect(me.region("Message")).to_have_count(0)


async def test_a_session_is_exported_and_opened_on_another_machine(visit: Visit, servers: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    async with visit(servers) as me:
        await me.ready("deficient", "asking")
        await call_sum(me)
        await call_sum(me)
        await me.see("tab", "Wire", exact=True).first.click()
        async with me.page.expect_download() as download:
            await me.see("tabpanel", "Wire").get_by_role("button", name="Export").click()
        await (await download.value).save_as(file)
    async with visit(str(file)) as me:
        wire = me.see("tabpanel", "Wire")
        await expect(wire.get_by_role("status").first).to_contain_text("The messages of session.jsonl")
        await expect(me.region("Servers").get_by_role("listitem")).to_have_count(0)
        await (await invalid_answer(me)).last.click()
        message = me.region("Message")
        await expect(message).to_contain_text("CallToolResult/content")
        await expect(message).to_contain_text("The same as the response before")
        await expect(message.get_by_role("button", name="Edit and send again")).to_have_count(0)
        assert await faults(me) == []
    # the page of carrel dev opens it beside the server, and goes back
    program = tmp_path / "draft.py"
    program.write_text(WRITTEN)
    async with visit(str(program), command="dev") as me:
        await me.ready("draft")
        await me.see("tab", "Wire", exact=True).first.click()
        wire = me.see("tabpanel", "Wire")
        async with me.page.expect_file_chooser() as chooser:
            await wire.get_by_role("button", name="Open").click()
        await (await chooser.value).set_files(file)
        await expect(wire.get_by_role("row", name=re.compile("deficient")).first).to_be_visible()
        await wire.get_by_role("button", name="Back to the servers").click()
        await expect(wire.get_by_role("row", name=re.compile("tools.list")).first).to_be_visible()
        await expect(wire.get_by_role("row", name=re.compile("deficient"))).to_have_count(0)


async def test_an_old_and_a_new_client_are_compared_side_by_side(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {"asking": asking(), "fixed": {**asking(), "revision": "2025-06-18"}}
    file.write_text(json.dumps({"mcpServers": entries}))
    async with visit(str(file)) as me:
        await me.ready("asking", "fixed")
        await compare_clients(me, "asking")
        preview = me.region("Preview")
        await expect(preview.get_by_role("combobox", name="Client of an older revision")).to_have_value("2025-11-25")
        await preview.get_by_role("combobox", name="Client of an older revision").select_option("2025-06-18")
        await expect(me.page).to_have_url(re.compile(r"/wire/compare\?a=2025-06-18&message=\d+"))
        await preview.get_by_role("button", name="Send with both").click()
        await expect(preview.get_by_role("heading", name="Client of 2025-06-18")).to_be_visible()
        await expect(preview.get_by_role("heading", name="Client of 2026-07-28")).to_be_visible()
        pairs = preview.get_by_role("list", name="Messages").get_by_role("listitem")
        first = pairs.first
        await expect(first.get_by_role("group", name="2025-06-18: initialize")).to_be_visible()
        await expect(first.get_by_role("group", name="2026-07-28: server/discover")).to_be_visible()
        last = pairs.filter(has=me.see("group", "2025-06-18: response to tools/list")).last
        await expect(last.get_by_role("group", name="2026-07-28: response to tools/list")).to_be_visible()
        await last.get_by_text("Difference", exact=True).click()
        await expect(last.get_by_role("region", name="Difference")).to_contain_text("ttlMs")
        assert await faults(me) == []
        await me.page.set_viewport_size({"width": 390, "height": 800})
        assert await too_wide(me) == []
        await me.page.set_viewport_size({"width": 1280, "height": 800})
        # a revision that the configuration fixes is said, and nothing is compared
        await compare_clients(me, "fixed")
        await expect(preview.get_by_role("status")).to_contain_text(
            "The configuration of fixed fixes the revision 2025-06-18"
        )
        await expect(preview.get_by_role("button", name="Send with both")).to_have_count(0)


async def compare_clients(me: Person, server: str) -> None:
    """Open the comparison of the list of a server's tools."""
    await me.page.goto(f"{me.origin}/wire?server={server}&method=tools%2Flist")
    rows = me.see("grid", "Messages").get_by_role("row", name=re.compile("^(?!.*response).*tools.list"))
    await rows.first.click()
    await me.region("Message").get_by_role("link", name="Old and new client").click()


async def test_messages_of_a_tool_are_beside_it(visit: Visit, servers: str) -> None:
    async with visit(servers) as me:
        await me.ready("deficient", "asking")
        await call_sum(me)
        preview = me.region("Preview")
        await preview.get_by_text("Wire", exact=True).click()
        items = preview.get_by_role("list", name="Messages").get_by_role("listitem")
        await expect(items).to_have_count(2)
        await expect(items.nth(1)).to_contain_text("invalid")
        await items.nth(1).get_by_role("link").click()
        await expect(me.region("Message")).to_contain_text("CallToolResult/content")


async def test_the_doctor_examines_a_server_after_a_click(visit: Visit, servers: str) -> None:
    async with visit(servers) as me:
        await me.ready("deficient", "asking")
        await me.page.goto(f"{me.origin}/doctor/deficient")
        preview = me.region("Preview")
        await expect(preview.get_by_role("button", name="Start the examination")).to_be_enabled()
        await expect(preview.get_by_role("region", name="Checks")).to_have_count(0)
        await preview.get_by_role("button", name="Start the examination").click()
        await expect(preview).to_contain_text(re.compile(r"Score \d+ of 100"))
        await expect(preview.get_by_role("region", name="Checks").get_by_role("listitem")).to_have_text(
            [re.compile("done")] * 7
        )
        findings = preview.get_by_role("region", name="Findings")
        await expect(findings).to_contain_text("CallToolResult/content")
        await expect(findings.get_by_role("link", name="Specification").first).to_be_visible()
        assert await faults(me) == []


@pytest.mark.parametrize(
    ("locale", "wire"), [("de-DE", "Nachrichten"), pytest.param("zh-CN", "通信", marks=pytest.mark.exhaustive)]
)
async def test_the_views_of_authors_fit_a_narrow_dark_page(visit: Visit, servers: str, locale: str, wire: str) -> None:
    narrow = {"viewport": {"width": 390, "height": 800}, "locale": locale, "color_scheme": "dark"}
    async with visit(servers, **narrow) as me:
        await me.page.goto(f"{me.origin}/wire")
        row = me.see("tabpanel", wire).get_by_role("row").first
        message = me.page.locator("section.message")
        await row.or_(message).first.wait_for()
        while not await message.is_visible():  # rows move while the servers connect, and a click may miss them
            with suppress(PlaywrightError):  # the message has opened meanwhile, in place of the rows
                await row.click(timeout=2000)
            await me.page.wait_for_timeout(500)
        await message.get_by_text("jsonrpc").first.wait_for()
        assert await too_wide(me) == []
        assert await faults(me) == []
        await me.page.goto(f"{me.origin}/doctor/deficient")
        await me.page.locator("section.preview button.primary").click()
        await me.page.locator("section.preview .score").wait_for()
        assert await too_wide(me) == []
        assert await faults(me) == []


WRITTEN = """\
from carrel import Server

app = Server("draft")


@app.tool
def greet(who: str) -> str:
    return f"Hello {who}"
"""
LATER = WRITTEN.replace("who: str", "who: str, loud: bool = False") + "\n\n@app.tool\ndef part() -> None: ...\n"


async def test_a_server_that_is_written_is_reloaded_and_its_changes_are_shown(visit: Visit, tmp_path: Path) -> None:
    program = tmp_path / "draft.py"
    program.write_text(WRITTEN)
    async with visit(str(program), command="dev") as me:
        await me.ready("draft")
        await me.see("tab", "Tools").click()
        await me.see("grid", "Tools").get_by_role("row", name=re.compile("greet")).click()
        preview = me.region("Preview")
        await preview.get_by_role("textbox", name="who").fill("Ada")
        await preview.get_by_role("button", name="Call").click()
        await expect(preview.get_by_role("region", name="Result")).to_contain_text("Hello Ada")
        program.write_text(LATER)
        await me.see("tab", re.compile("^Interface")).click()
        changes = me.see("list", "Interface")
        await expect(changes.get_by_text("new part")).to_be_visible()
        await expect(changes.get_by_role("region", name="greet")).to_contain_text(re.compile('added: ?\\s*"loud"'))
        # the page has kept what was typed, and calls the new server
        await expect(preview.get_by_role("textbox", name="who")).to_have_value("Ada")
        await preview.get_by_role("button", name="Call").click()
        await expect(preview.get_by_role("region", name="Result")).to_contain_text("Hello Ada")
        assert await faults(me) == []
