"""``ClientSessionGroup`` of ``carrel.compat.mcp`` with servers in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from carrel.compat.mcp import ClientSessionGroup, McpError, StdioServerParameters
from carrel.compat.mcp.server.fastmcp import FastMCP
from carrel.compat.mcp.shared.memory import create_connected_server_and_client_session
from carrel.compat.mcp.types import Implementation

PROGRAM = """
from carrel.compat.mcp.server.fastmcp import FastMCP
server = FastMCP("shelf")
@server.tool()
def count() -> int:
    return 3
server.run()
"""


def shelf(name: str) -> FastMCP:
    server = FastMCP(name)

    @server.tool()
    def where() -> str:
        return name

    @server.prompt()
    def ask() -> str:
        return name

    return server


async def test_a_group_calls_the_tools_of_its_sessions_and_forgets_a_session_that_leaves() -> None:
    group = ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}.{name}")
    async with (
        create_connected_server_and_client_session(shelf("one")) as one,
        create_connected_server_and_client_session(shelf("two")) as two,
        group,
    ):
        for name, session in (("one", one), ("two", two)):
            await group.connect_with_session(Implementation(name=name, version="1"), session)
        assert set(group.tools) == set(group._tool_to_session) == {"one.where", "two.where"}
        assert set(group.prompts) == {"one.ask", "two.ask"}
        result = await group.call_tool("two.where", args={})
        assert result.structuredContent == {"result": "two"}
        await group.disconnect_from_server(one)
        assert (set(group.tools), set(group.prompts), group.sessions) == ({"two.where"}, {"two.ask"}, [two])
        with pytest.raises(McpError, match="not managed"):
            await group.disconnect_from_server(one)


async def test_a_name_that_is_taken_leaves_the_group_as_it_was() -> None:
    async with (
        create_connected_server_and_client_session(shelf("one")) as one,
        create_connected_server_and_client_session(shelf("two")) as two,
        ClientSessionGroup() as group,
    ):
        await group.connect_with_session(Implementation(name="one", version="1"), one)
        with pytest.raises(McpError, match="already exist in group"):
            await group.connect_with_session(Implementation(name="two", version="1"), two)
        assert group.sessions == [one]
        assert set(group.tools) == {"where"}


async def test_a_group_starts_and_ends_the_process_of_a_server(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    async with ClientSessionGroup() as group:
        session = await group.connect_to_server(StdioServerParameters(command=sys.executable, args=[str(program)]))
        assert (await group.call_tool("count")).structuredContent == {"result": 3}
        await group.disconnect_from_server(session)
        assert not group.tools
        assert not group._session_exit_stacks
