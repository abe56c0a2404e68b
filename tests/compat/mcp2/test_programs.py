"""Programs written for ``mcp`` 2: they list, answer and receive the same on Carrel as on the original."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from carrel import Client
from compat.comparison import run, run_code
from compat.mcp2.comparison import PROGRAMS, compare, on_carrel, on_original

pytestmark = pytest.mark.slow


def test_a_server_with_decorators_answers_the_same() -> None:
    plan = {
        "tools": [
            ["add", {"a": "5"}],
            ["add", {"a": 1, "b": "x"}],
            ["place", {"point": '{"x": 1, "Y": 3}', "tags": '["a"]'}],
            ["untyped", {"copy": [1], "value": "v"}],
            ["required", {"a": 2}],
            *(["fails", {"how": how}] for how in ("tool", "resource", "mcp", "?")),
        ],
        "form": {"name": "Ann", "age": 3},
        "read": ["user://bob/7", "user://bob/x", "user://none/1", "search://here?limit=5", "file:///docs/../secret"],
    }
    answers = compare([str(PROGRAMS / "wide.py")], plan)
    assert answers['call fails {"how": "?"}']["content"][0]["text"] == "Error executing tool fails"
    assert answers["call form {}"]["content"][0]["text"].endswith("data=Answer(name='Ann', age=3)")
    assert len(answers["tools"]["tools"]) > 15


def test_a_low_level_server_answers_the_same() -> None:
    answers = compare([str(PROGRAMS / "low.py")], {"tools": [["first", {"a": 1}]], "read": ["low://two"]})
    assert answers['call first {"a": 1}']["content"][0]["text"] == "{'a': 1} {}"


def test_a_client_receives_the_same_in_each_mode() -> None:
    client = [str(PROGRAMS / "client.py")]
    expected = run(on_original(client))
    assert "event ToolsListChanged() ResourceUpdated(uri='text://fixed')" in expected
    assert "listen 2025-11-25" in expected
    assert run(on_carrel(client)) == expected


async def test_a_server_runs_without_the_original() -> None:
    program = str(PROGRAMS / "wide.py")
    async with Client([sys.executable, "-m", "carrel.compat", program], revision="2026-07-28") as client:
        assert client.server is not None
        assert client.server.title == "A wide server"
        assert client.capabilities.extensions == {"org.example/extra": {"level": 3}}
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["extra_tool"].meta == {"from": "extra"}


def test_content_of_mcp_types_is_content_in_both_generations(tmp_path: Path) -> None:
    for head in ("from mcp.server.fastmcp import FastMCP as Make", "from mcp.server import MCPServer as Make"):
        (tmp_path / "server.py").write_text(
            f"{head}\nimport mcp_types\nserver = Make('a')\n"
            "@server.tool()\ndef block():\n    return [mcp_types.TextContent(type='text', text='plain'), 'more']\n"
        )
        code = (
            "import asyncio, sys\nfrom carrel.cli.server.load import load\n"
            "from carrel.cli.server.compat_option import redirect\nfrom carrel import Client\n"
            "async def main():\n    async with Client(load('server.py')) as client:\n"
            "        print((await client.call_tool('block', {})).text)\n"
            "redirect(['server.py'], None)\nasyncio.run(main())\n"
        )
        done = run_code(code, tmp_path)
        assert done.stdout == "plain\nmore\n", done.stderr
