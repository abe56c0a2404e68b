"""A gateway as a command, in front of reference servers: two of the same program, and one in another language."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from carrel import Client
from carrel.client.handlers import Handlers
from carrel.protocol.revisions import REVISIONS
from carrel.wire.client_features import ElicitResult
from interop.test_http_servers import running
from interop.test_servers_reference import pypi
from support.carrel_process import command, serving
from support.parties import node_modules, node_program, python_program

SERVERS = Path(__file__).parent / "servers"
pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """Return the path of a repository with one new file."""
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "new.txt").write_text("x")
    return str(folder)


async def test_reference_servers_are_one_server_for_clients_of_every_revision(tmp_path: Path, repository: str) -> None:
    everything = node_modules() / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    one = {"command": node_program(), "args": [str(everything)]}
    git, *arguments = pypi("mcp_server_git")
    servers = {"one": one, "two": one, "git": {"command": git, "args": arguments}}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    for revision in (next(iter(REVISIONS)), list(REVISIONS)[-1]):
        async with Client(command("gateway", str(file)), revision=revision) as client:
            tools = [tool.name for tool in await client.list_tools()]
            assert {"one_echo", "two_echo", "git_status"} < set(tools)
            assert "echo" not in tools
            assert (await client.call_tool("two_echo", {"message": "hi"})).text == "Echo: hi"
            assert "new.txt" in (await client.call_tool("git_status", {"repo_path": repository})).text
            templates = [template.uri_template for template in await client.list_resource_templates()]
            assert "two+demo://resource/dynamic/text/{resourceId}" in templates
            (part,) = (await client.read_resource("two+demo://resource/dynamic/text/1")).contents
            assert part.uri == "two+demo://resource/dynamic/text/1"
            steps: list[float] = []
            await client.call_tool(
                "one_trigger-long-running-operation",
                {"duration": 0.1, "steps": 2},
                progress=lambda progress, total, message, steps=steps: steps.append(progress),  # type: ignore[misc]
            )
            assert steps == [1, 2]
            prompt = await client.get_prompt("one_args-prompt", {"city": "Ulm"})
            assert "Ulm" in prompt.messages[0].content.text  # type: ignore[union-attr]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_tool_of_the_official_sdk_2_asks_clients_of_either_era_if_the_revision_is_set(
    transport: str, tmp_path: Path
) -> None:
    async def answer(form: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    with contextlib.ExitStack() as stack:
        if transport == "http":
            server = {"url": stack.enter_context(running("python-2", "stream"))}
        else:
            program, *arguments = python_program("2", str(SERVERS / "python_sdk_http.py"), "stdio")
            server = {"command": program, "args": arguments}
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"official": {**server, "revision": "2025-11-25"}}}))
        with serving("gateway", str(file)) as (url, _):
            for revision in ("2025-11-25", "2026-07-28"):
                async with Client(url, revision=revision, handlers=Handlers(elicit_form=answer)) as client:
                    async with client.watch(lists=["tools"]) as changes:  # the server may take long to start
                        while not await client.list_tools():
                            await anext(changes)
                    assert (await client.call_tool("ask")).text == "Hello, Ada"
