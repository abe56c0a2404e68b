"""Running a server: what its author sees on standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from carrel import Server
from carrel.errors import ConfigError
from carrel.server.greeting import greeting
from chat.pty_program import in_terminal

SERVER = """
import asyncio
from carrel import Client, Server

app = Server("my shop")

@app.tool
def fail() -> str:
    raise ValueError("broken inside")

async def call(url):
    async with Client(url) as client:
        result = await client.call_tool("fail")
        print(result.content[0].text)
    task.cancel()

async def main():
    global task
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(app.run_async(%s))
    await asyncio.wait([task])
    print(task.cancelled())

asyncio.run(main())
"""


def run(tmp_path: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a server until a client has called its tool, and return what it has written."""
    file = tmp_path / "server.py"
    file.write_text(SERVER % arguments)
    return subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=True)


CALLING = "on_started=lambda url: loop.create_task(call(url))"


@pytest.mark.slow
def test_a_failure_of_a_tool_is_on_standard_error_with_its_traceback(tmp_path: Path) -> None:
    found = run(tmp_path, f"'http', port=0, {CALLING}")
    assert found.stdout.startswith("broken inside (reference ")
    assert "tool fail failed, reference" in found.stderr
    assert 'raise ValueError("broken inside")' in found.stderr


@pytest.mark.slow
def test_log_level_says_how_much_is_logged(tmp_path: Path) -> None:
    found = run(tmp_path, f"'streamable-http', port=0, log_level='critical', {CALLING}")
    assert "failed" not in found.stderr
    found = run(tmp_path, f"'http', port=0, log_level='error', {CALLING}")
    assert "ERROR carrel: tool fail failed, reference" in found.stderr


def test_the_log_level_of_a_server_is_that_of_run_unless_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up: list[str] = []
    monkeypatch.setattr("carrel.server.serving._log_to_stderr", set_up.append)
    monkeypatch.setattr("carrel.transports.server.stdio.run", lambda app: None)
    app = Server("s", log_level="info")
    app.run()
    app.run(log_level="debug")
    Server("quiet").run()
    assert set_up == ["info", "debug"]
    with pytest.raises(ConfigError, match="log_level must be debug, info, warning, error, critical, not 'loud'"):
        Server("s", log_level="loud")


@pytest.mark.slow
def test_a_server_says_where_it_listens_and_how_to_connect(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("from carrel import Server\nServer('my shop').run('sse', port=0)\n")
    with subprocess.Popen([sys.executable, file], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = greeting("my shop", "http://127.0.0.1:1/mcp", "/sse").count("\n")
        shown = "".join(process.stderr.readline() for _ in range(lines))
        process.terminate()
        assert process.wait(60) == 0
    port = shown.partition("http://127.0.0.1:")[2].partition("/")[0]
    assert shown == greeting("my shop", f"http://127.0.0.1:{port}/mcp", "/sse")
    assert f"carrel install vscode http://127.0.0.1:{port}/mcp --name 'my shop'" in shown
    assert f"old URL  http://127.0.0.1:{port}/sse (HTTP+SSE)" in shown


@pytest.mark.slow
def test_on_a_terminal_it_says_that_it_waits_for_an_application(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("from carrel import Server\nServer('my shop').run()\n")
    with in_terminal([sys.executable, str(file)]) as terminal:
        terminal.wait_for("'my shop' waits for an application on standard input; Ctrl-C stops it\n")
