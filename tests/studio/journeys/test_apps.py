"""MCP Apps: an app of a FastMCP server, written with the SDK of MCP Apps, and an app that attacks the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import FrameLocator, expect

from studio.journeys.conftest import Visit
from support.browser import Person
from support.parties import node_modules, python_program
from support.web_site import running_site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TESTS = Path(__file__).parents[2]
SDK = "@modelcontextprotocol/ext-apps/dist/src/app-with-deps.js"
WRITER = """\
from pathlib import Path

from carrel import Server

app = Server("writer")


@app.tool
def write() -> str:
    Path(__file__).with_name("written").write_text("x")
    return "done"
"""


async def call(me: Person, tool: str) -> FrameLocator:
    """Call a tool with an app, and return the frame of the app."""
    await me.see("tab", "Tools").click()
    await me.see("grid", "Tools").get_by_role("row", name=re.compile(f"^{tool}")).click()
    await me.region("Preview").get_by_role("button", name="Call", exact=True).click()
    return me.region("Preview").frame_locator("iframe").frame_locator("iframe")


async def test_an_app_gets_the_call_and_acts_after_approval_only(visit: Visit) -> None:
    server = str(TESTS / "interop/servers/fastmcp_app.py")
    async with visit("--", *python_program("fastmcp", server, str(node_modules() / SDK))) as me:
        await me.see("tab", "Tools").click()
        await me.see("grid", "Tools").get_by_role("row", name=re.compile("^weather")).click()
        await me.region("Preview").get_by_label("city").fill("Bergen")
        app = await call(me, "weather")
        await expect(app.get_by_text("Input: Bergen")).to_be_visible()
        await expect(app.get_by_text("Result: Rain in Bergen")).to_be_visible()
        await expect(app.get_by_text("Host: Carrel Studio, light")).to_be_visible()
        frame = me.region("Preview").locator("iframe")
        assert 48 <= float((await frame.get_attribute("style") or "").split("height: ")[1].split("px")[0]) <= 720

        asked = me.see("dialog", name=re.compile("wants to call refresh"))
        await app.get_by_role("button", name="Refresh").click()
        await expect(asked).to_contain_text('"city": "Oslo"')
        await asked.get_by_role("button", name="Deny").click()
        await expect(app.get_by_text("Refused:")).to_contain_text("denied")
        await app.get_by_role("button", name="Refresh").click()
        await asked.get_by_role("checkbox").check()
        await asked.get_by_role("button", name="Allow").click()
        await expect(app.get_by_text("Fresh: Sun in Oslo")).to_be_visible()

        await app.get_by_role("button", name="Ask the model's tool").click()
        await expect(app.get_by_text("Refused:")).to_contain_text("not for apps")
        await app.get_by_role("button", name="Refresh").click()  # not asked again
        await expect(app.get_by_text("Fresh: Sun in Oslo")).to_be_visible()

        await app.get_by_role("button", name="Forecast").click()
        page = me.see("dialog")
        await expect(page).to_contain_text("weather.example")
        await page.get_by_role("button", name="Deny").click()
        await expect(app.get_by_text("Refused:")).to_contain_text("denied")

        await me.region("Preview").get_by_role("button", name="Close the app").click()
        await expect(me.region("Preview").locator("iframe")).to_have_count(0)
        await expect(me.region("Preview")).to_contain_text("The app is closed")
        me.refused[:] = [each for each in me.refused if each.startswith(me.origin)]  # the SDK asks whether eval works


async def test_an_app_ends_when_something_else_is_shown(visit: Visit) -> None:
    server = str(TESTS / "interop/servers/fastmcp_app.py")
    async with visit("--", *python_program("fastmcp", server, str(node_modules() / SDK))) as me:
        app = await call(me, "weather")
        await expect(app.get_by_text("Result:")).to_be_visible()
        await me.see("grid", "Tools").get_by_role("row", name=re.compile("^plan")).click()
        await expect(me.region("Preview").get_by_role("heading", name="plan")).to_be_visible()
        await expect(me.region("Preview").locator("iframe")).to_have_count(0)
        await me.see("tablist", "Tools of the page").get_by_role("tab", name="Wire").click()
        await expect(me.see("tabpanel", "Wire")).to_contain_text("resources/read")
        await expect(me.see("tabpanel", "Wire")).not_to_contain_text("never")
        me.refused[:] = [each for each in me.refused if each.startswith(me.origin)]


async def test_an_attacking_app_gets_nothing(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    hostile = str(TESTS / "support/servers/hostile_app.py")
    async with (
        running_site() as site,
        visit(str(tmp_path / "writer.py"), "--", sys.executable, hostile, site.origin) as me,
    ):
        await me.ready("writer")
        app = await call(me, "show")
        preview = me.region("Preview")
        await expect(preview.get_by_text("Not allowed, although the app asks for it")).to_contain_text(site.origin)
        asked = me.see("dialog")
        await expect(asked).to_contain_text(
            "from the app"
        )  # of all its calls, only the call of its own tool is asked about
        assert "wants to call own" in (await asked.inner_text())
        await asked.get_by_role("button", name="Deny").click()
        await expect(app.get_by_role("heading", name="Done")).to_be_visible()
        got = dict(line.split(": ", 1) for line in await app.get_by_role("listitem").all_inner_texts())
        assert len(got) > 40
        assert {name: value for name, value in got.items() if value != "nothing"} == {}
        assert not (tmp_path / "written").exists()
        assert me.page.url.startswith(me.origin)
        assert len(me.page.context.pages) == 1
        box = await preview.locator("iframe").bounding_box()
        assert box is not None
        assert box["height"] <= 724

        # navigating its own frame to another origin is refused as well
        await app.get_by_role("button", name="Go").click()
        await expect(app.get_by_role("heading", name="Done")).to_have_count(0)
        assert site.requests == []
        assert me.foreign == []
        assert [each for each in me.refused if each.startswith(me.origin)] == []
        me.refused.clear()
