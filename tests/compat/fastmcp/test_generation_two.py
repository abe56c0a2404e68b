"""Programs for FastMCP 2: responses that differ from later versions, and decorators that return components."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict

from carrel import Client
from carrel.compat import generation
from carrel.compat.fastmcp import Client as FastMCPClient
from carrel.compat.fastmcp import FastMCP
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.tools import FunctionTool
from carrel.errors import PeerError

PROGRAM = """# /// script
# dependencies = ["{requirement}"]
# ///
from fastmcp import FastMCP

mcp = FastMCP("a")

@mcp.tool
def add(a: int, b: int) -> int:
    return a + b

print(type(add).__name__, mcp.name)
"""


class Point(BaseModel):
    """Model that refuses further properties."""

    model_config = ConfigDict(extra="forbid")
    x: int


@pytest.fixture(params=["2.13.3", "2.14.5"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Version of the installed package."""
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: request.param)
    return request.param


@pytest.fixture
def mcp(version: str) -> FastMCP:
    """Server with two tools, a resource and a prompt."""
    mcp = FastMCP("two")

    @mcp.tool(tags={"maths"})
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool
    def move(point: Point) -> Point:
        return point

    @mcp.resource("data://config")
    def config() -> dict[str, int]:
        return {"a": 1}

    @mcp.prompt
    def ask(count: int) -> str:
        return f"{count} questions"

    return mcp


async def test_schemas_allow_further_arguments_and_the_key_of_meta_has_an_underscore(
    mcp: FastMCP, version: str
) -> None:
    async with Client(mcp._mcp_server.application()) as client:
        add, move = await client.list_tools()
    assert add.meta == {"_fastmcp": {"tags": ["maths"]}}
    assert "additionalProperties" not in str((add.input_schema, move.input_schema, move.output_schema))
    assert ("$defs" in move.input_schema) == (version == "2.13.3")
    assert add.output_schema["description"].startswith("Generic wrapper")


async def test_capabilities_have_neither_log_messages_nor_apps(mcp: FastMCP) -> None:
    async with Client(mcp._mcp_server.application(), revision="2025-11-25") as client:
        assert client.capabilities.logging in (None, UNSET)
        assert client.capabilities.extensions in (None, UNSET)


async def test_results_and_error_responses_are_those_of_2(mcp: FastMCP) -> None:
    async with Client(mcp._mcp_server.application(), revision="2025-11-25") as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.structured_content, result.meta) == ({"result": 3}, None)
        assert getattr((await client.read_resource("data://config")).contents[0], "text", None) == '{"a":1}'
        with pytest.raises(PeerError, match=r"Error rendering prompt ask\. "):
            await client.get_prompt("ask", {"count": "many"})
        assert "Unknown tool: nope" in str((await client.call_tool("nope")).content)


async def test_decorators_return_the_component_which_can_be_hidden_and_shown(mcp: FastMCP) -> None:
    @mcp.tool(enabled=False)
    def extra(a: int) -> int:
        return a

    assert isinstance(extra, FunctionTool)
    assert extra.fn(3) == 3
    async with FastMCPClient(mcp) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add", "move"]
        with pytest.raises(ToolError, match="Unknown tool: extra"):
            await client.call_tool("extra", {"a": 1})
        extra.enable()
        assert extra.enabled
        assert (await client.call_tool("extra", {"a": 1})).data == 1
        extra.disable()
        assert [tool.name for tool in await client.list_tools()] == ["add", "move"]


@pytest.mark.parametrize(
    ("requirement", "kind"),
    [("fastmcp>=2.10,<3", "FunctionTool"), ("fastmcp==2.13.3", "FunctionTool"), ("fastmcp>=2.3", "function")],
)
def test_the_requirement_of_a_program_decides(requirement: str, kind: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(requirement=requirement))
    command = [sys.executable, "-m", "carrel", "run", "--compat", str(program)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{kind} a" in done.stdout + done.stderr
