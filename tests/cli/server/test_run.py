"""``carrel run``: real processes, and the official SDK's client."""

import json
import subprocess

import pytest

from carrel.cli import main
from chat.pty_program import in_terminal
from support.carrel_process import COMMAND, carrel, command, serving
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow

SERVER = """
import os
import subprocess
import sys
from carrel import Server

print("printed at import", flush=True)
subprocess.run([sys.executable, "-c", "print('printed by a child')"])
app = Server("books")

@app.tool
def add(a: int, b: int) -> int:
    print("printed by a tool", flush=True)
    return a + b

@app.tool
def which() -> str:
    return __name__

if __name__ == "__main__":
    raise SystemExit("executed")
"""
ASYNC = "from carrel import Server\n\nasync def make_app():\n    return Server('made')\n"


def module(*arguments):
    """Return the command line of a new process, which no fork stands for."""
    return [*COMMAND, *arguments]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(SERVER)
    return str(path)


@pytest.mark.parametrize("target", ["shop.py", "shop.py:app"])
def test_the_official_client_uses_a_file_on_stdio_whatever_it_prints(file, target, tmp_path):
    errors = tmp_path / "errors"
    start = command if target == "shop.py:app" else module
    with (
        errors.open("w") as stderr,
        sdk_session(*start("run", file.replace("shop.py", target)), stderr=stderr) as client,
    ):
        assert client.name == "books"
        assert client.tool("add", a=1, b=2) == "3"
        assert client.tool("which") == "shop"
    printed = errors.read_text()
    assert {"printed at import", "printed by a child", "printed by a tool"} <= set(printed.splitlines())


def test_the_official_client_uses_a_file_over_http(file):
    with serving("run", file) as (url, _), sdk_session(url) as client:
        assert client.tool("add", a=1, b=2) == "3"


def test_an_async_function_makes_the_server_on_both_transports(tmp_path):
    (tmp_path / "made.py").write_text(ASYNC)
    with sdk_session(*command("run", str(tmp_path / "made.py"))) as client:
        assert client.name == "made"
    with serving("run", str(tmp_path / "made.py")) as (url, _), sdk_session(url) as client:
        assert client.name == "made"


def test_limits_of_the_command_line_hold(file):
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"x": "y" * 5000}})
    done = subprocess.run(
        command("run", file, "--limit", "max_message_bytes=4096"),
        input=hello + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "at most 4096 bytes" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no server given: name a file, a module, or a carrel.toml with [app]"),
        (["nowhere.py"], "no such file: nowhere.py"),
        (["http://127.0.0.1:8000/mcp"], "is the URL of a server that runs already: name a Python file or a module"),
        (["sqlite:///shop.db"], "is a source: share it with carrel serve, or name a Python file or a module"),
        (["localhost:8000"], "localhost:8000 is not a file; for a URL, write http://localhost:8000"),
        (["FILE", "--sse"], "need --http"),
        (["FILE", "--limit", "x=1"], "there is no limit 'x'"),
    ],
)
def test_wrong_use_is_one_line(file, arguments, complaint):
    done = carrel("run", *(file if one == "FILE" else one for one in arguments), text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr.splitlines()[-1]


def test_an_error_has_its_traceback_with_debug(tmp_path, capfd):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    target = str(tmp_path / "broken.py")
    assert main(["run", target, "--http", "0"]) == 2
    assert "Traceback" not in capfd.readouterr().err
    assert main(["run", target, "--http", "0", "--debug"]) == 2
    errors = capfd.readouterr().err
    assert "ZeroDivisionError: division by zero\n" in errors
    assert errors.splitlines()[-1].startswith("carrel: ")


def test_a_terminal_is_told_that_an_application_is_awaited_once_the_server_is_there(tmp_path):
    (tmp_path / "good.py").write_text("from carrel import Server\napp = Server('shop')\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    waiting = "waiting for an application on standard input; to look at it yourself, add --http 8000"
    with in_terminal([*COMMAND, "run", str(tmp_path / "good.py")]) as terminal:
        terminal.wait_for(waiting)
    with in_terminal([*COMMAND, "run", str(tmp_path / "broken.py")]) as terminal:
        terminal.wait_for("SyntaxError")
        assert "waiting" not in terminal.text
    with in_terminal([*COMMAND, "serve", str(tmp_path)]) as terminal:
        terminal.wait_for(f"{waiting}\n")
