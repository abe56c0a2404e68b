"""``python -m carrel.compat`` and ``carrel run --compat``: programs written for ``mcp`` 1.x, run as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from support.carrel_process import carrel, command

pytestmark = pytest.mark.slow

DEFINED = """
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("defined")


@mcp.tool()
def double(a: int) -> int:
    return 2 * a
"""

MADE_APPLICATION = """
from fastmcp import FastMCP

mcp = FastMCP("defined")


@mcp.tool
def double(a: int) -> int:
    return 2 * a


app = mcp.http_app()
"""


def test_a_program_is_run_with_its_arguments_and_beside_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from mcp import types\nname = types.Tool.__name__\n")
    (tmp_path / "program.py").write_text(
        "import sys, beside\nif __name__ == '__main__':\n    print(sys.argv[1:], beside.name)\n"
    )
    program = [sys.executable, "-m", "carrel.compat"]
    done = subprocess.run(
        [*program, str(tmp_path / "program.py"), "-x", "y"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "['-x', 'y'] Tool\n", done.stderr
    done = subprocess.run([*program, "-m", "program", "z"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "['z'] Tool\n", done.stderr


def test_without_a_program_the_usage_is_shown() -> None:
    done = subprocess.run([sys.executable, "-m", "carrel.compat"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python -m carrel.compat FILE [ARGUMENTS]")


@pytest.mark.parametrize("module", [["carrel.compat"], ["carrel", "run", "--compat"]])
async def test_a_server_that_is_only_defined_is_served_on_stdio(module: list[str], tmp_path: Path) -> None:
    file = tmp_path / "defined.py"
    file.write_text(DEFINED)
    async with Client([sys.executable, "-m", *module, str(file)]) as client:
        result = await client.call_tool("double", {"a": "4"})
        assert result.structured_content == {"result": 8}


@pytest.mark.parametrize("flags", [["--compat"], []])
async def test_a_fastmcp_server_that_only_makes_an_http_application_is_served_on_stdio(
    flags: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "made.py"
    file.write_text(MADE_APPLICATION)
    async with Client(command("run", *flags, str(file))) as client:
        result = await client.call_tool("double", {"a": 4})
        assert result.structured_content == {"result": 8}


def test_a_server_with_an_http_application_is_not_passed_over_for_another_server(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(MADE_APPLICATION + 'other = FastMCP("other")\n')
    done = carrel("run", "--compat", str(file), text=True)
    assert done.returncode == 2
    assert f"it has 2 servers, name one: {file}:mcp or {file}:other" in done.stderr


async def test_a_client_of_the_newest_revision_is_answered_too(tmp_path: Path) -> None:
    file = tmp_path / "defined.py"
    file.write_text(DEFINED)
    async with Client([sys.executable, "-m", "carrel.compat", str(file)], revision="2026-07-28") as client:
        assert client.server is not None
        assert client.server.name == "defined"
        assert (await client.list_tools())[0].input_schema["title"] == "doubleArguments"
        assert json.loads((await client.call_tool("double", {"a": 4})).text) == 8


def test_a_missing_file_is_one_line_wherever_the_flag_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--compat", str(tmp_path / "none.py")]) == 2
    assert main(["run", str(tmp_path / "none.py"), "--compat"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"carrel: no such file: {tmp_path / 'none.py'}"] * 2


@pytest.mark.parametrize("name", ["", " ", ".package", "package..module"])
def test_a_module_without_a_name_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--compat", "-m", name], ["--compat=mcp2", "-m", name], ["-m", name, "--http", "8000"]):
        assert main(["run", *words]) == 2
        assert capsys.readouterr().err == f"carrel: argument -m: {name!r} is not the name of a module\n"
