"""Servers of four ages and languages on one page: tree, list, filter, sort, deep links, Back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support.parties import node_modules, node_program, python_program

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVERS = Path(__file__).parents[2] / "interop/servers"


@pytest.fixture
def targets(tmp_path: Path) -> tuple[str, str]:
    """A folder, and a configuration with server-everything, server-filesystem, and servers of three SDKs."""
    folder = tmp_path / "notes"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/long.txt").write_text("".join(f"line {number}\n" for number in range(1, 2001)))
    (folder / "deep/er/short.txt").write_text("short")
    (folder / "deep/one.txt").write_text("one")
    (folder / "b.md").write_text("# B\n" + "more words\n" * 400)
    (folder / "a.json").write_text('{"a": [1, 2]}')
    modules = node_modules() / "@modelcontextprotocol"
    commands = {
        "everything": [node_program(), str(modules / "server-everything/dist/index.js")],
        "filesystem": [node_program(), str(modules / "server-filesystem/dist/index.js"), str(folder)],
        "older": python_program("1", str(SERVERS / "python_sdk_1.py"), "stdio"),
        "newer": python_program("2", str(SERVERS / "python_sdk_2.py"), "stdio"),
        "fastmcp": python_program("2", str(SERVERS / "fastmcp_4.py"), "stdio"),
    }
    servers = {name: {"command": command[0], "args": command[1:]} for name, command in commands.items()}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return str(folder), str(tmp_path / "mcp.json")


async def test_servers_of_all_ages_are_browsed_filtered_linked_and_left_again(
    visit: Visit, targets: tuple[str, str], tmp_path: Path
) -> None:
    async with visit(*targets) as me:
        await me.ready("notes", "everything", "filesystem", "older", "newer", "fastmcp")
        await expect(me.region("Servers")).to_contain_text("6 of 6 ready")
        tree, preview = me.see("tree", "Resources"), me.region("Preview")
        for name in ("notes", "everything", "older", "newer", "fastmcp"):
            await expect(tree.get_by_role("treeitem", name=name, exact=True)).to_have_attribute("aria-level", "1")

        # folders, level by level
        await expect(tree.get_by_role("treeitem", name="er", exact=True)).to_have_count(0)
        await tree.get_by_role("treeitem", name="deep", exact=True).click()
        inner = tree.get_by_role("treeitem", name="er", exact=True)
        await expect(inner).to_have_attribute("aria-expanded", "false")
        await inner.click()
        await tree.get_by_role("treeitem", name="long.txt").click()
        await expect(preview.get_by_role("heading", name="long.txt")).to_be_visible()

        # Back and Forward
        await tree.get_by_role("treeitem", name="a.json").click()
        await expect(preview.get_by_role("heading", name="a.json")).to_be_visible()
        await me.page.go_back()
        await expect(preview.get_by_role("heading", name="long.txt")).to_be_visible()
        await me.page.go_forward()
        await expect(preview.get_by_role("heading", name="a.json")).to_be_visible()

        # a list, sorted
        await me.see("button", "List", exact=True).click()
        await expect(me.see("button", "List", exact=True)).to_have_attribute("aria-pressed", "true")
        grid = me.see("grid", "Resources")
        await me.see("searchbox", "Search resources").fill("server:notes")
        await expect(grid).to_have_attribute("aria-rowcount", "6")
        await expect(me.see("status").filter(has_text="6 resources")).to_be_visible()
        await me.see("combobox", "Sort by").select_option("Size")
        await expect(grid.get_by_role("row").first).to_contain_text("long.txt")

        # filters are chips
        await me.see("searchbox", "Search resources").fill("server:notes type:text/markdown")
        await expect(grid.get_by_role("row")).to_have_count(1)
        await expect(grid.get_by_role("row")).to_contain_text("b.md")
        await me.see("button", "Remove filter type:text/markdown").click()
        await expect(grid).to_have_attribute("aria-rowcount", "6")
        await me.see("searchbox", "Search resources").fill("size:<big")
        await expect(me.region("Resources").get_by_role("listitem").filter(has_text="size:<big")).to_be_visible()
        assert "as=list" in me.page.url

        # a link to lines, in a new tab of the same browser
        long = (tmp_path / "notes/deep/er/long.txt").as_uri().replace(":", "%3A").replace("/", "%2F")
        await me.page.goto(f"{me.origin}/s/notes/r/{long}#L1200-L1203")
        await expect(preview.get_by_role("tab", name="Text")).to_have_attribute("aria-selected", "true")
        await expect(preview.get_by_role("link", name="Line 1200", exact=True)).to_be_visible()
        await expect(tree.get_by_role("treeitem", name="long.txt")).to_have_attribute("aria-selected", "true")

        # only one server
        await me.region("Servers").get_by_role("button", name=re.compile("^older")).click()
        await expect(me.see("status").filter(has_text="3 resources")).to_be_visible()
        await tree.get_by_role("treeitem", name="text", exact=True).click()
        await expect(preview).to_contain_text("Plain text: 糖尿病")

        # a link to a tool with its arguments, which calls nothing before the click
        arguments = quote(json.dumps({"path": str(tmp_path / "notes/deep/er/short.txt")}))
        await me.page.goto(f"{me.origin}/s/filesystem/t/read_text_file?args={arguments}")
        await expect(preview.get_by_role("heading", name="Read Text File")).to_be_visible()
        await expect(preview.get_by_role("region", name="Result")).to_have_count(0)
        await preview.get_by_role("button", name="Call", exact=True).click()
        await expect(preview.get_by_role("region", name="Result")).to_contain_text("short")


async def test_a_server_that_cannot_be_reached_says_which_step_has_failed(visit: Visit, tmp_path: Path) -> None:
    broken = {"command": "no-such-program-for-carrel"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"broken": broken}}))
    async with visit(str(tmp_path / "mcp.json")) as me:
        item = me.region("Servers").get_by_role("listitem", name=re.compile("^broken, failed: "))
        await expect(item).to_contain_text("Start the program")
        await expect(item.get_by_role("listitem").first).to_contain_text("failed")
        await item.get_by_role("button", name="Reconnect").click()
        await expect(item).to_contain_text("Start the program")
        await me.see("button", "Settings").click()
        await me.see("combobox", "Language").select_option("Deutsch")
        await me.page.keyboard.press("Escape")
        item = me.region("Server").get_by_role(
            "listitem", name=re.compile("^broken, fehlgeschlagen: er ist falsch eingerichtet")
        )
        await expect(item.get_by_role("listitem").first).to_contain_text(
            "Das Programm no-such-program-for-carrel gibt es nicht"
        )


async def test_a_server_is_handed_over_to_other_applications(visit: Visit, targets: tuple[str, str]) -> None:
    async with visit(*targets) as me:
        await me.ready("notes", "everything")
        servers = me.region("Servers")
        await servers.get_by_role("button", name="Details of everything").click()
        await servers.get_by_text("Open in another application").click()
        link = await servers.get_by_role("link", name="VS Code").get_attribute("href")
        assert link is not None
        assert link.startswith("vscode:mcp/install?%7B%22name%22%3A%22everything%22")
        link = await servers.get_by_role("link", name="Cursor").get_attribute("href")
        assert link is not None
        assert link.startswith("cursor://anysphere.cursor-deeplink/mcp/install?name=everything&config=")
        await servers.get_by_role("button", name="Copy JSON").click()
        await expect(me.page.get_by_text("Copied")).to_be_visible()
        entry = json.loads(await me.copied())["mcpServers"]["everything"]
        assert entry["args"][0].endswith("server-everything/dist/index.js")
        await servers.get_by_role("button", name="Details of everything").click()
        await servers.get_by_role("button", name="Details of notes").click()
        await servers.get_by_text("Open in another application").click()
        await expect(servers).to_contain_text("The server runs inside Carrel")
