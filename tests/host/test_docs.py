"""The code of docs/host.md, which is run with a server that has what it asks for."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.host import Host
from carrel.host.config import ServerConfig, read_file
from support.snippets import snippets

PAGE = "docs/host.md"
SHOP = """
from carrel import Server

app = Server("shop")
app.resources.add("note://1", "one", name="one", mime_type="text/plain")

@app.tool
def find(query: str) -> str:
    return query

@app.prompt
def greet(who: str) -> str:
    return f"Hello {who}"

app.run()
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home and project of a user with one server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop.py").write_text(SHOP)
    entry = {"command": sys.executable, "args": ["shop.py"], "cwd": "${workspaceFolder}"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    return tmp_path


def test_the_first_program_shows_the_servers_of_the_applications_and_their_resources(folder: Path) -> None:
    first = snippets(PAGE, "python")[0].code
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run([sys.executable, "-c", first], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "shop ready \nshop note://1\n", "")


async def test_the_other_code_runs(folder: Path) -> None:
    config = ServerConfig(name="shop", command=sys.executable, args=("shop.py",), cwd=str(folder))
    async with Host([config]) as host:
        for snippet in snippets(PAGE, "python")[1:]:
            names: dict[str, object] = {"host": host}
            code = "\n" * (snippet.line - 1) + snippet.code
            running = eval(compile(code, PAGE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.isawaitable(running):
                task = asyncio.ensure_future(running)
                if "host.watch()" in code:
                    asyncio.get_running_loop().call_soon(task.cancel)
                await asyncio.gather(task, return_exceptions="host.watch()" in code)


def test_the_keys_of_carrel_toml_are_those_of_the_page(folder: Path) -> None:
    (folder / "carrel.toml").write_text(snippets(PAGE, "toml")[0].code)
    found = read_file(folder / "carrel.toml")
    assert not found.problems
    [shop] = found.servers
    assert (shop.command, shop.timeout, shop.start_timeout, shop.tags) == ("python", 20, 10, ("work",))
    assert shop.inputs["key"].password
