"""The examples do what they say."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.transports import memory
from parties import node_program

EXAMPLES = Path(__file__).parent.parent / "examples"
SHOWS_PAGES = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


def load(name: str) -> Server:
    """Return the application of an example."""
    app = runpy.run_path(str(EXAMPLES / name))["app"]
    assert isinstance(app, Server)
    return app


async def ask(peer: memory.MemoryPeer, method: str, **params: Any) -> dict[str, Any]:
    reply = await peer.request(method, params)
    assert "result" in reply, reply
    return reply["result"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_run_here(path: Path) -> None:
    assert f'load("{path.name}")' in Path(__file__).read_text(encoding="utf-8")


async def test_the_server_with_skills_brings_what_its_instructions_speak_of() -> None:
    async with memory.connect(load("skills_server.py")) as peer:
        [uri] = re.findall(r"skill:\S+\.md", (await ask(peer, "server/discover"))["instructions"])
        skill = (await ask(peer, "skills/get", uri=uri))["skill"]
        assert [entry["uri"].rpartition("/")[2] for entry in skill["resources"]] == [
            *("SKILL.md", "decision.md", "minutes.md"),
        ]
        [contents] = (await ask(peer, "resources/read", uri="meeting://2026-01-31"))["contents"]
        assert "Bo will tighten the screws" in contents["text"]


async def test_the_dice_have_a_page_and_words() -> None:
    async with memory.connect(load("app_ui.py"), **SHOWS_PAGES) as peer:
        roll, again = (await ask(peer, "tools/list"))["tools"]
        assert roll["_meta"]["ui"] == {"resourceUri": "ui://dice/page.html"}
        assert again["_meta"]["ui"]["visibility"] == ["app"]
        result = await ask(peer, "tools/call", name="roll", arguments={"count": 3})
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert sum(result["structuredContent"]["rolls"]) == result["structuredContent"]["sum"]
        [page] = (await ask(peer, "resources/read", uri="ui://dice/page.html"))["contents"]
    assert page["_meta"]["ui"] == {"prefersBorder": True}
    [script] = re.findall(r"<script>(.*?)</script>", page["text"], re.DOTALL)
    assert talk_to(script) == ["ui/initialize", "ui/notifications/initialized", "1 + 2 = 3", "tools/call", "6 + 6 = 12"]


HOST = """
const said = [], elements = {};
globalThis.document = { getElementById: (id) => (elements[id] ??= {}) };
let hear;
globalThis.addEventListener = (kind, listener) => { hear = (data) => listener({ source: parent, data }); };
const rolled = (rolls, sum) => ({ content: [], structuredContent: { rolls, sum } });
globalThis.parent = { postMessage: async ({ id, method, params }) => {
  said.push(method);
  await null;
  if (method === "ui/initialize") hear({ jsonrpc: "2.0", id, result: { protocolVersion: params.protocolVersion } });
  if (method === "tools/call") hear({ jsonrpc: "2.0", id, result: rolled([6, 6], 12) });
} };
require("vm").runInThisContext(process.argv[1]);
setTimeout(async () => {
  hear({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: rolled([1, 2], 3) });
  said.push(elements.sum.textContent);
  await elements.again.onclick();
  said.push(elements.sum.textContent);
  console.log(JSON.stringify(said));
});
"""


def talk_to(script: str) -> list[str]:
    """Run the script of a page as a host would, and return what it says and shows."""
    done = subprocess.run([node_program(), "-e", HOST, script], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)
