"""``carrel install … --compat``: servers that an application has already run on Carrel, and back."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from carrel.cli import main
from carrel.host.config.read import read_file
from support.carrel_process import carrel
from support.parties import python

SERVER = """
import sys
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("present")


@mcp.tool()
def words() -> str:
    return f"{FastMCP.__module__.partition('.')[0]} {sys.argv[1:]}"


if __name__ == "__main__":
    mcp.run()
"""

#: Reads a server from a configuration file, as applications do, and calls its tool with the official SDK.
SDK = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    with open(sys.argv[1]) as file:
        server = StdioServerParameters(**json.load(file)["mcpServers"][sys.argv[2]])
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        print((await client.call_tool("words")).content[0].text)

asyncio.run(main())
"""


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, dict[str, object]]:
    (tmp_path / "program.py").write_text(SERVER)
    return {
        "present": {"command": sys.executable, "args": [str(tmp_path / "program.py"), "--a"], "env": {"K": "value"}},
        "node": {"command": "npx", "args": ["-y", "server"]},
        "far": {"url": "https://example.org/mcp"},
    }


@pytest.mark.slow
def test_a_server_runs_on_carrel_and_gets_its_own_command_back(
    tmp_path: Path, entries: dict[str, dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "claude_desktop_config.json"
    file.write_text(json.dumps({"mcpServers": entries}, indent=2))
    before = file.read_text()
    options = ["install", "claude-desktop", "--config", str(file), "--yes", "--compat"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "far stays as it is: it has a URL and no command." in shown
    assert "node stays as it is: npx starts no Python program that Carrel can run" in shown
    [server] = [each for each in read_file(file).servers if each.name == "present"]  # as an application reads it
    assert (server.env, server.args[-6:-3]) == ({"K": "value"}, ("run", "--compat", "--"))
    assert server.command is not None
    called = carrel("call", "words", "--", server.command, *server.args, text=True)
    assert called.stdout == "carrel ['--a']\n", called.stderr
    assert main([*options, "present"]) == 0
    assert "present stays as it is: it runs on Carrel already." in capsys.readouterr().out
    assert main([*options, "present", "--remove"]) == 0
    assert file.read_text() == before


def test_a_server_in_toml_is_rewritten_and_restored(tmp_path: Path, entries: dict[str, dict[str, object]]) -> None:
    file = tmp_path / "config.toml"
    text = f'[mcp_servers.present]\ncommand = {json.dumps(sys.executable)}\nargs = ["-m", "a"]\n'
    file.write_text(text)
    options = ["install", "codex", "present", "--config", str(file), "--yes", "--compat"]
    assert main(options) == 0
    assert tomllib.loads(file.read_text())["mcp_servers"]["present"]["args"][-3:] == [sys.executable, "-m", "a"]
    assert main([*options, "--remove"]) == 0
    assert tomllib.loads(file.read_text()) == tomllib.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"args": []}], ids=["no field of arguments", "no arguments"])
def test_the_official_sdk_starts_a_rewritten_server_without_arguments(tmp_path: Path, given: dict[str, object]) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}{SERVER}")
    program.chmod(0o755)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"present": {"command": str(program), **given}}}, indent=2))
    before = file.read_text()
    options = ["install", "cursor", "present", "--config", str(file), "--yes", "--compat"]
    assert main(options) == 0
    command = [str(python("1")), "-c", SDK, str(file), "present"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "carrel []\n", done.stderr
    assert main([*options, "--remove"]) == 0
    assert file.read_text() == before


def test_a_name_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}')
    assert main(["install", "cursor", "gti", "--config", str(file), "--yes", "--compat"]) == 2
    assert f"{file} has no server 'gti'; did you mean 'git'?" in capsys.readouterr().err
