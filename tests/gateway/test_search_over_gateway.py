"""``carrel gateway --search-tools`` in front of the reference servers of others."""

import asyncio
import json
import sys

import pytest

from carrel import Client
from carrel.cli import main
from support.parties import node_modules, node_program, python

pytestmark = pytest.mark.slow


@pytest.fixture
def configuration(tmp_path):
    def npm(package, *arguments):
        script = node_modules() / "@modelcontextprotocol" / package / "dist" / "index.js"
        return {"command": node_program(), "args": [str(script), *arguments]}

    (tmp_path / "note.txt").write_text("written by hand")
    servers = {
        "everything": npm("server-everything"),
        "files": npm("server-filesystem", str(tmp_path)),
        "time": {"command": python("1"), "args": ["-m", "mcp_server_time"]},
    }
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@pytest.mark.parametrize("revision", [pytest.param("2025-11-25", marks=pytest.mark.exhaustive), "2026-07-28"])
async def test_tools_of_all_servers_are_found_and_called_through_the_gateway(configuration, revision):
    lines = []
    command = [sys.executable, "-m", "carrel", "gateway", str(configuration), "--search-tools", "--pin", "echo"]
    from carrel.transports.client.options import ProcessOptions

    async with Client(command, revision=revision, process=ProcessOptions(stderr=lines.append)) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        # A tool that has to be a task is called by its name.
        assert set(tools) == {"call_tool", "search_tools", "echo", "simulate-research-query"}
        assert "There are tools for: everything, files, time." in tools["search_tools"].description

        async def found(query):
            result = await client.call_tool("search_tools", {"query": query})
            return [tool["name"] for tool in result.structured_content["tools"]]

        async def best(query):
            return (await found(query))[0]

        while "get_current_time" not in await found("current time"):  # a search does not wait for servers that start
            await asyncio.sleep(0.1)
        assert await best("what time is it in Tokyo") in ("get_current_time", "convert_time")
        assert await best("add two numbers") == "get-sum"
        result = await client.call_tool("call_tool", {"name": "get-sum", "arguments": {"a": 2, "b": 3}})
        assert "5" in result.text
        note = {"path": str(configuration.parent / "note.txt")}
        result = await client.call_tool("call_tool", {"name": "read_text_file", "arguments": note})
        assert result.text == "written by hand"
        steps = []
        slow = {"name": "trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 2}}
        await client.call_tool("call_tool", slow, progress=lambda done, total, message: steps.append(done))
        assert steps[-1] == 2
        assert (await client.call_tool("call_tool", {"name": "get-summ"})).text.startswith(
            "There is no tool 'get-summ'"
        )
    assert any("tool search: 4 tools in place of" in line and "% less" in line for line in lines)


def test_pin_without_a_search_is_wrong_use(configuration, capsys):
    assert main(["gateway", str(configuration), "--pin", "echo"]) == 2
    assert "--pin is for --search-tools" in capsys.readouterr().err
