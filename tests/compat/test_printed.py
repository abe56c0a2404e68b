"""What programs print before their server begins to serve, or without any server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

#: Lines of a module that write to standard output at once: text, bytes, and a process of its own.
PRINTING = """
import os, subprocess, sys
print("printed", flush=True)
os.write(1, b"written\\n")
subprocess.run([sys.executable, "-c", "print('inherited')"])
"""
OFFICIAL = """
from mcp.server.fastmcp import FastMCP
server = FastMCP("printing")
@server.tool()
def double(a: int) -> int:
    print("called")
    return 2 * a
"""
SECOND = OFFICIAL.replace("mcp.server.fastmcp import FastMCP", "mcp.server import MCPServer as FastMCP")
FAST = OFFICIAL.replace("mcp.server.fastmcp", "fastmcp")
LOW = """
import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
server = Server("printing")
@server.call_tool()
async def call(name, arguments):
    print("called")
    return [types.TextContent(type="text", text=str(2 * arguments["a"]))]
async def main():
    print("beginning", flush=True)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())
"""
RUN = '\nif __name__ == "__main__":\n    server.run()\n'
RUN_LOW = '\nif __name__ == "__main__":\n    anyio.run(main)\n'
MESSAGES = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "double", "arguments": {"a": 4}}},
]
CARREL = ("-m", "carrel", "run")


def start(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, between pipes, with unbuffered output."""
    command = [sys.executable, "-u", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, timeout=60)


PROGRAMS = [OFFICIAL + RUN, SECOND + RUN, FAST + RUN, LOW + RUN_LOW, OFFICIAL, FAST]
WAYS = [
    (*CARREL, "--compat", "program.py"),
    (*CARREL, "program.py"),
    (*CARREL, "--compat", "-m", "program"),
    (*CARREL, "-m", "program"),
    (*CARREL, "--compat", "--", "./program"),
    (*CARREL, "--compat", "--", sys.executable, "program.py"),
    ("-m", "carrel.compat", "program.py"),
]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        # Each program is started, and each way to start one is taken.
        *zip(PROGRAMS, WAYS, strict=False),
        (PROGRAMS[0], WAYS[-1]),
        *(pytest.param(program, WAYS[0], marks=pytest.mark.exhaustive) for program in PROGRAMS[1:]),
        *(pytest.param(PROGRAMS[0], arguments, marks=pytest.mark.exhaustive) for arguments in WAYS[1:-1]),
    ],
)
def test_a_client_gets_messages_alone_however_the_program_starts(
    tmp_path: Path, program: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "program.py").write_text(PRINTING + program)
    (tmp_path / "program").write_text(f"#!{sys.executable}\n{PRINTING}{program}")  # as the commands of packages are
    stdin = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in MESSAGES)
    done = start(tmp_path, *arguments, stdin=stdin)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2], done.stderr
    assert answers[1]["result"]["content"][0]["text"] == "8"
    assert [line for line in done.stderr.splitlines() if line in ("printed", "written", "inherited", "called")] == [
        "printed",
        "written",
        "inherited",
        "called",
    ]


CLIENT = """
import asyncio
from fastmcp import Client, FastMCP
async def main():
    async with Client(FastMCP("inner")) as client:
        print(await client.list_tools())
        INPUT = input()
        print("read", INPUT)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("program", "printed", "code"),
    [
        ("import mcp, sys\nsys.exit(0)", [], 0),
        ("import mcp\nraise ValueError(1)", [], 1),
        ("from mcp import types", [], 0),
        ("from mcp.server import FastMCP\none, two = FastMCP('one'), FastMCP('two')", [], 2),
        (CLIENT, ["[]", "read line"], 0),
    ],
)
def test_what_a_program_without_a_server_prints_is_its_output(
    tmp_path: Path, program: str, printed: list[str], code: int
) -> None:
    (tmp_path / "program.py").write_text(PRINTING + program)
    done = start(tmp_path, *CARREL, "--compat", "program.py", stdin="line\n")
    assert done.stdout.splitlines() == ["printed", "written", "inherited", *printed]
    assert done.returncode == code, done.stderr


def test_a_client_prints_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PRINTING + CLIENT)
    command = [sys.executable, "-u", *CARREL, "--compat", "program.py"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(4)] == ["printed", "written", "inherited", "[]"]
        process.stdin.write("end\n")
        process.stdin.close()
        assert process.stdout.read() == "read end\n"
