"""The studio over servers of others, each of another age: server-everything on stdio, and a hanging and a dying one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from carrel.host.config import ServerConfig
from support.parties import node_modules, node_program
from support.studio_page import Page, folder_server, opened

pytestmark = pytest.mark.slow

HOSTED = str(Path(__file__).parents[1] / "support/servers/hosted.py")
HANGING = "import sys; sys.stderr.write('I hang\\n'); sys.stderr.flush(); sys.stdin.read()"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    (tmp_path / "a.md").write_text("# A")
    everything = node_modules() / "@modelcontextprotocol/server-everything/dist/index.js"
    async with opened(
        ServerConfig(name="everything", command=node_program(), args=(str(everything),)),
        ServerConfig(name="old", command=sys.executable, args=(HOSTED, "plain", "old"), revision="2024-11-05"),
        ServerConfig(name="hanging", command=sys.executable, args=("-c", HANGING)),
        ServerConfig(name="dying", command=sys.executable, args=(HOSTED, "dying")),
        folder_server(tmp_path, "notes"),
    ) as page:
        await page.listen(0)
        yield page


async def test_servers_of_every_age_are_used_while_others_hang_and_die(page: Page) -> None:
    servers = await page.ready("everything", "old", "notes")
    assert (servers["everything"]["transport"], servers["old"]["revision"]) == ("stdio", "2024-11-05")
    assert servers["everything"]["software"].startswith("mcp-servers/everything")
    assert servers["hanging"]["state"] == "connecting"
    failed = (await page.event(lambda event: is_state(event, "dying", "failed")))["server"]
    assert "It ended" in failed["reason"] or failed["reason"]
    assert (await page.get("/servers/dying/stderr"))["lines"]
    assert (await page.get("/servers/hanging/stderr"))["lines"] == ["I hang"]
    assert (await page.ask("GET", "/servers/none/stderr"))[0] == 404

    tools = {row["name"] for row in (await page.get("/items", kind="tool", server="everything"))["rows"]}
    assert "echo" in tools
    echo = {"kind": "call", "server": "everything", "name": "echo", "arguments": {"message": "hello"}}
    _, view = await page.ask("POST", "/operations", echo)
    _, result = (201, view["result"]) if view["state"] == "done" else await page.outcome(view["id"])
    assert result["content"][0]["text"] == "Echo: hello"
    resources = await page.get("/items", server="everything", limit=1)
    key = resources["rows"][0]["key"]
    assert (await page.get("/contents", server="everything", uri=key["uri"]))["text"]

    tree = await page.get("/tree")
    messages = {row["server"]: row["message"] for row in tree["rows"]}
    assert messages["everything"] is messages["old"] is None
    assert messages["hanging"] == "connecting"
    assert messages["dying"]
    page.events.clear()
    assert (await page.ask("POST", "/servers/dying/reconnect", {}))[0] == 204
    await page.event(lambda event: is_state(event, "dying", "failed"))


def is_state(event: dict, name: str, state: str) -> bool:
    return event["type"] == "server" and event["server"]["name"] == name and event["server"]["state"] == state
