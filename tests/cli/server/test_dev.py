"""``carrel dev``: real processes, real edits, and the official SDK's client."""

import json
import os
import pty
import re
import subprocess
import threading

import httpx
import pytest

from support.carrel_process import COMMAND, Errors, command, serving
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow

SERVER = """
from carrel import Server
from shelf import WORD

app = Server("books", instructions="v1")

@app.middleware("tools/call")
async def watching(call, next):
    print("middleware of v1")
    return await next(call)

@app.tool
def greet() -> str:
    return WORD

@app.tool
def fail() -> str:
    raise ValueError("on fire")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "books.py").write_text(SERVER)
    (tmp_path / "shelf.py").write_text("WORD = 'one'\n")
    return tmp_path


class Lines:
    """The lines of a pipe, as ``Errors`` reads them."""

    def __init__(self, descriptor):
        self.stderr = os.fdopen(descriptor)


def wait_until(client, holds):
    """Wait for notifications that the tools have changed until something holds: an exchange may take two."""
    client.call("changed")
    while not holds():
        client.call("changed")


def test_an_edit_reaches_a_client_that_stays_connected_on_stdio(folder):
    reading, writing = os.pipe()
    with sdk_session(*COMMAND, "dev", str(folder / "books.py"), stderr=writing) as client:
        os.close(writing)
        errors = Errors(Lines(reading))
        assert client.tool("greet") == "one"
        errors.wait_for("^middleware of v1$")

        (folder / "books.py").write_text(SERVER.replace("def greet", "def hello").replace("of v1", "of v2"))
        wait_until(client, lambda: client.tools() == ["fail", "hello"])
        assert client.tool("hello") == "one"
        errors.wait_for("^middleware of v2$")

        (folder / "shelf.py").write_text("WORD = 'two'\n")  # a module beside it, of the same length
        wait_until(client, lambda: client.tool("hello") == "two")

        (folder / "books.py").write_text("def (\n")
        errors.wait_for(r"books\.py changed, but .*SyntaxError: .* line 1\); the server stays as it was")
        assert client.tool("hello") == "two"

        (folder / "books.py").write_text(SERVER)
        wait_until(client, lambda: client.tools() == ["fail", "greet"])
        assert client.tool("greet") == "two"
    errors.wait_for("^$")
    errors._process.stderr.close()


def test_a_new_server_that_does_not_start_leaves_the_old_one(folder):
    broken = SERVER + "\n@app.on_startup\ndef begin():\n    raise ValueError('no database')\n"
    with serving("dev", str(folder / "books.py")) as (url, errors), sdk_session(url) as client:
        (folder / "books.py").write_text(broken)
        errors.wait_for("books.py changed, but the new server does not start: ValueError: no database")
        assert client.tool("greet") == "one"


def test_every_message_is_a_readable_line(folder):
    with serving("dev", str(folder / "books.py")) as (url, errors), sdk_session(url) as client:
        client.tool("greet")
        client.tool("fail")
        time = r"^\d\d:\d\d:\d\d\.\d{3}  "
        errors.wait_for(time + r"->  initialize mcp 0\.1\.0 +#0 +\d+ B$")
        errors.wait_for(time + r"<-  initialize mcp 0\.1\.0 +#0 +\d+ B  \d+\.\d ms$")
        errors.wait_for(time + r"->  initialized +\d+ B$")
        errors.wait_for(time + r"->  tools/call greet +#\d +\d+ B$")
        errors.wait_for(time + r"<-  tools/call greet +#\d +\d+ B  \d+\.\d ms$")
        errors.wait_for(time + r"<-  tools/call fail +#\d +\d+ B  \d+\.\d ms  tool error$")


def converse(folder, *lines, flags=()):
    done = subprocess.run(
        command("dev", str(folder / "books.py"), *flags),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stderr.splitlines()


def test_messages_are_shown_as_json_with_raw(folder):
    request = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    shown = [json.loads(line) for line in converse(folder, json.dumps(request), "nonsense", flags=["--raw"])]
    assert [(one["direction"], one["message"]) for one in shown[:1]] == [("in", request)]
    assert ("in", "nonsense") in [(one["direction"], one["message"]) for one in shown]
    assert [one["message"]["error"]["code"] for one in shown if one["direction"] == "out"][-1] == -32700


def test_messages_that_are_refused_are_lines_too_and_control_nothing(folder):
    lines = converse(folder, "nonsense", '{"jsonrpc":"2.0","id":"\\u001b[31m","method":"x\\u001b[31m"}')
    assert re.search(r"->  message that is not valid +8 B$", lines[0])
    assert re.search(r"<-  error +\d+ B  -32700 Parse error", lines[1])
    assert "\x1b" not in "".join(lines)


def test_the_keys_of_a_terminal_reload_and_say_how_to_inspect(folder):
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "dev", str(folder / "books.py"), "--http", "0"],
        stdin=terminal,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": "/nowhere"},
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        errors = Errors(process)
        url = errors.wait_for("http://\\S+")[0]
        errors.wait_for("press i for the MCP Inspector, r to reload")
        os.write(controller, b"r")
        errors.wait_for("r was pressed: reloaded")
        os.write(controller, b"i")
        assert url in errors.wait_for("the MCP Inspector needs Node .*--server-url .*")[0]
        process.send_signal(2)
        process.wait()
        watchdog.cancel()
    os.close(controller)
    os.close(terminal)
    assert process.returncode == 0


def test_watchfiles_is_named_where_it_is_missing(folder):
    code = "import sys; sys.modules['watchfiles'] = None; from carrel.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [COMMAND[0], "-c", code, "dev", str(folder / "books.py")],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (2, "carrel: carrel dev needs watchfiles: pip install 'carrel[files]'\n")


GUARDED = """
from carrel.compat.mcp.server.auth.provider import AccessToken
from carrel.compat.mcp.server.auth.settings import AuthSettings
from carrel.compat.mcp.server.fastmcp import FastMCP

class Verifier:
    async def verify_token(self, token):
        return AccessToken(token=token, client_id="me", scopes=["user"]) if token == "first" else None

auth = AuthSettings(issuer_url="https://id.example.org", resource_server_url="http://127.0.0.1/mcp")
server = FastMCP("guarded", auth=auth, token_verifier=Verifier())
"""


def status_of(url, token):
    """Return the status of a request for the lists of a server."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    return httpx.post(url, json=message, headers=headers).status_code


def test_the_authorization_of_a_program_follows_its_code(tmp_path):
    program = tmp_path / "guarded.py"
    program.write_text(GUARDED)
    with serving("dev", str(program), "--compat") as (url, errors):
        assert [status_of(url, token) for token in ("first", "second")] == [400, 401]  # 400: without a session
        program.write_text(GUARDED.replace("first", "second"))
        errors.wait_for("guarded.py changed: reloaded")
        assert [status_of(url, token) for token in ("first", "second")] == [401, 400]
        program.write_text(GUARDED.replace(", auth=auth, token_verifier=Verifier()", ""))
        errors.wait_for("has no authorization now.*start carrel dev again")
        assert status_of(url, "first") == 401
