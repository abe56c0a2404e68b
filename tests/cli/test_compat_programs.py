"""Programs for ``mcp`` and FastMCP, given to commands as files: served with Carrel, or told what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from carrel.cli.install.install import compat_flag
from carrel.types import HTTPOptions
from support.carrel_process import COMMAND, carrel, command, serving

pytestmark = pytest.mark.slow

FAST = """
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_http_headers

mcp = FastMCP("fast")
other = FastMCP("other")


@mcp.tool
def double(a: int) -> int:
    return 2 * a


@mcp.tool
def team() -> str:
    return get_http_headers().get("x-team", "none")


@other.tool
def triple(a: int) -> int:
    return 3 * a


if __name__ == "__main__":
    mcp.run(transport="http", port=8000)
"""
OFFICIAL = """
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("official")


@mcp.tool()
def double(a: int) -> int:
    return 2 * a


if __name__ == "__main__":
    mcp.run()
"""
#: The form of the reference servers: all of it inside of a function that the program calls.
LOW = """
import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main() -> None:
    server = Server("low")

    @server.list_tools()
    async def tools() -> list[types.Tool]:
        return [types.Tool(name="double", inputSchema={"type": "object"})]

    @server.call_tool()
    async def call(name: str, arguments: dict) -> list[types.TextContent]:
        return [types.TextContent(type="text", text=str(2 * int(arguments["a"])))]

    async with stdio_server() as (read, write), anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0)
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
"""
PROGRAMS = {"fast.py": FAST, "official.py": OFFICIAL, "low.py": LOW}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, code in PROGRAMS.items():
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["official.py", "low.py", "fast.py:mcp"])
def test_commands_take_a_program_as_they_take_a_server_of_carrel(folder: Path, target: str) -> None:
    done = carrel("call", target, "double", "a=4", text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "8"), done.stderr


def test_another_server_of_a_program_is_chosen_by_its_name(folder: Path) -> None:
    done = carrel("call", "fast.py:other", "triple", "a=4", text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "12"), done.stderr


def test_the_doctor_examines_a_program(folder: Path) -> None:
    done = carrel("doctor", "official.py", text=True)
    assert "official" in done.stdout, done.stderr
    assert "score" in done.stdout


@pytest.mark.parametrize("arguments", [("run", "fast.py"), ("run", "--compat", "fast.py:mcp"), ("dev", "fast.py")])
async def test_a_program_is_served_over_http(folder: Path, arguments: tuple[str, ...]) -> None:
    with serving(*arguments) as (url, _):
        async with Client(url, http=HTTPOptions(headers={"X-Team": "blue"})) as client:
            assert (await client.call_tool("double", {"a": 4})).text == "8"
            assert (await client.call_tool("team")).text == "blue"


@pytest.mark.parametrize("flags", [[], ["--compat"]])
@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("from mcp import types\n", "program.py ended without running a server"),
        (
            "from fastmcp import FastMCP\na, b = FastMCP('a'), FastMCP('b')\n",
            "program.py has 2 servers; name one: program.py:a or program.py:b",
        ),
        ("import sys\nfrom mcp import types\nsys.exit()\n", "program.py ended without running a server"),
    ],
)
def test_a_program_that_runs_no_server_is_an_error(folder: Path, flags: list[str], code: str, complaint: str) -> None:
    (folder / "program.py").write_text(code)
    done = carrel("run", *flags, "program.py", text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        complaint.replace(
            "has 2 servers;", "ended without running a server; it has 2 servers," if flags else "has 2 servers;"
        )
        in done.stderr
    )


def test_a_program_that_prints_and_asks_for_exit_code_0_gets_it(folder: Path) -> None:
    (folder / "program.py").write_text(
        "import argparse\nfrom mcp import types\nargparse.ArgumentParser().parse_args()\n"
    )
    done = carrel("run", "--compat", "program.py", "--help", text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: program.py")


@pytest.mark.parametrize(
    ("module", "passed"), [(("-m", "counting"), ()), ((), ("--", sys.executable, "counting.py", "a"))]
)
async def test_a_module_and_a_command_are_served_over_http_with_their_arguments(
    folder: Path, module: tuple[str, ...], passed: tuple[str, ...]
) -> None:
    named = OFFICIAL.replace('FastMCP("official")', "FastMCP(' '.join(sys.argv[1:]) or 'none')")
    (folder / "counting.py").write_text(f"import sys\n{named}")
    with serving("run", "--compat", *module, http=("--http", "0", *passed)) as (url, _):
        async with Client(url) as client:
            assert client.server is not None
            assert client.server.name == ("a" if passed else "none")


def test_arguments_of_a_program_may_follow_two_dashes(folder: Path) -> None:
    (folder / "program.py").write_text("import sys\nfrom mcp import types\nraise SystemExit(' '.join(sys.argv[1:]))\n")
    assert carrel("run", "--compat", "program.py", "--", "--http", "x", text=True).stderr == "--http x\n"
    assert carrel("run", "--compat", "program.py", "--port", "1", text=True).stderr == "--port 1\n"


def test_a_program_runs_on_carrel_although_its_package_is_installed(folder: Path) -> None:
    package = folder / "installed/fastmcp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ValueError('the installed package is imported')\n")
    done = carrel("call", "fast.py", "double", "a=4", env={"PYTHONPATH": str(package.parent)}, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "8"), done.stderr


def test_a_command_of_an_installed_package_runs_with_its_arguments(folder: Path) -> None:
    scripts = folder / "environment" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(sys.executable)
    (scripts.parent / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (scripts / "doubling-server").write_text(f"#!{scripts / 'python'}\n{OFFICIAL}")
    (scripts / "listing").write_text("#!/bin/ls\n")
    python = [str(scripts / "python"), "-P", "-m", "carrel"]
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    program = ["run", "--compat", "--", "doubling-server", "--port", "1"]
    done = subprocess.run(
        [*COMMAND, "ls", "--", *python, *program],
        env={**env, "PATH": ""},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert "double" in done.stdout, done.stderr
    for name in ("listing", "nonesuch"):
        done = subprocess.run([*python, "run", "--compat", "--", name], env=env, capture_output=True, text=True)
        assert done.returncode == 2
        assert f"{name} is neither a file nor a command of a Python package in {scripts}" in done.stderr


def test_a_program_is_installed_with_compat_whatever_is_installed_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "claude-desktop", "fast.py", "--config", str(folder / "config.json"), "--dry-run"]) == 0
    written = " ".join(capsys.readouterr().out.replace("+", " ").split())
    assert f'"run", "--compat", "{folder / "fast.py"}"' in written
    (folder / "own.py").write_text("import mcp\nfrom carrel import Server\n")
    assert compat_flag(str(folder / "own.py")) == []


def test_the_package_that_is_missing_is_named_with_its_extra(folder: Path) -> None:
    code = "import sys; sys.modules['pydantic'] = None; from carrel.cli import main; sys.exit(main(['run', 'fast.py']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "carrel: fast.py is a program for fastmcp; Carrel can run it, "
        "but the package pydantic is missing: pip install 'carrel[compat]'"
    )


def test_a_module_that_is_not_mirrored_is_named_with_its_replacement(tmp_path: Path) -> None:
    file = tmp_path / "guarded.py"
    file.write_text("from mcp.server.websocket import websocket_server\n" + OFFICIAL)
    done = carrel("ls", file)
    assert b"mcp.server.websocket is not mirrored by carrel.compat: use Streamable HTTP" in done.stderr, done.stderr
    assert b"pip install" not in done.stderr


def test_a_client_that_is_run_without_the_flag_gets_its_own_arguments_and_a_hint(tmp_path: Path) -> None:
    file = tmp_path / "client.py"
    file.write_text("import sys\nfrom mcp import ClientSession\nraise ValueError(sys.argv)\n")
    done = carrel("run", file)
    assert f"ValueError: ['{file}'] (client.py, line 3)" in done.stderr.decode(), done.stderr
    assert f"carrel run --compat {file} ARGUMENTS" in done.stderr.decode()


def test_arguments_of_a_program_without_the_flag_are_an_error_that_names_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "client.py"
    file.write_text("from mcp import ClientSession\n")
    done = carrel("run", file, "foo")
    assert done.returncode == 2
    assert f"write carrel run --compat {file} ARGUMENTS" in done.stderr.decode()
    file.write_text("from carrel import Server\n")
    assert done.stderr != carrel("run", file, "foo").stderr
    assert b"--compat" not in carrel("run", file, "foo").stderr


@pytest.mark.parametrize("arguments", [["-m", "official"], ["--", "official.py"], ["official"], ["official:mcp"]])
async def test_a_program_needs_no_flag_however_it_is_named(folder: Path, arguments: list[str]) -> None:
    async with Client(command("run", *arguments)) as client:
        assert (await client.call_tool("double", {"a": 4})).structured_content == {"result": 8}


def test_a_package_is_recognized_by_its_files(folder: Path) -> None:
    package = folder / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "app.py").write_text("from .server import mcp\n")
    (package / "server.py").write_text(OFFICIAL)
    done = carrel("ls", "shop.app", cwd=folder)
    assert b"double(a: integer)" in done.stdout, done.stderr


@pytest.mark.parametrize("flags", [[], ["--compat"]])
@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import not_there_at_all", "needs not_there_at_all, which is not installed here: pip install"),
        ("mcp = (", "cannot be loaded: SyntaxError: '(' was never closed (broken.py, line 2)"),
        ("from mcp import Nothing", "mcp has no Nothing in carrel.compat: run the program without --compat"),
    ],
)
def test_a_program_that_cannot_be_imported_is_one_line_with_the_way_out(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: str, complaint: str
) -> None:
    (folder / "broken.py").write_text(f"from mcp.server.fastmcp import FastMCP\n{code}\n")
    done = carrel("run", *flags, "broken.py", cwd=folder)
    assert done.returncode == 2
    assert complaint in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1, done.stderr


def test_a_name_that_a_file_does_not_have_is_answered_with_its_servers(folder: Path) -> None:
    done = carrel("run", "fast.py:server", cwd=folder)
    assert done.stderr == b"carrel: fast.py has no server; name fast.py:mcp or fast.py:other\n"
    assert done.returncode == 2


@pytest.mark.parametrize("flags", [["--compat", "-m"], ["-m"], ["--compat=mcp2", "-m"]])
@pytest.mark.parametrize("module", ["none_there", "none.there"])
def test_a_module_that_does_not_exist_is_said_in_one_line(folder: Path, flags: list[str], module: str) -> None:
    done = carrel("run", *flags, module, cwd=folder)
    assert done.stderr.decode() == (
        f"carrel: there is no module {module} here: install its package in {sys.prefix}, or name a file: "
        "carrel run --compat FILE\n"
    )
    assert done.returncode == 2


def test_a_file_in_place_of_a_module_and_a_missing_name_are_said_in_one_line(folder: Path) -> None:
    done = carrel("run", "--compat", "-m", "fast.py", cwd=folder)
    assert (done.returncode, done.stderr) == (2, b"carrel: fast.py is a file: carrel run --compat fast.py\n")
    done = carrel("run", "--compat", "-m", cwd=folder)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"argument -m: expected one argument" in done.stderr
