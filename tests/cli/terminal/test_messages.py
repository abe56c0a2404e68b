"""Text of others in what commands print: no name in a file or on a server forges a line or drives the terminal."""

import ast
import asyncio
import io
import json
import logging
import re
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import pytest

import carrel.cli
from carrel import Client, Server
from carrel.cli import COMMANDS, main
from carrel.cli.server.message_log import MessageLog
from carrel.cli.server.reload import Reloading
from carrel.cli.target import ServerLocation
from carrel.log import Log
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.connection import Peer
from carrel.protocol.revisions import REVISIONS
from carrel.server.registry import SilentChannel
from support.carrel_process import PATIENCE, Errors
from support.carrel_process import command as run
from support.http_process import free_port
from support.http_server import over_http
from support.memory_client import NOVEMBER

#: Texts as others may write them: lines that look like ours, escape sequences, bidirectional controls.
HOSTILE = "evil\n  FORGED row\r\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\u2066\u2028\u200b end"
#: File names have no slash; URIs are percent-encoded where they have to be.
FILE = "evil\n  FORGED row\x1b[2J\u202egnp.md"
#: What commands write on purpose: styles, and the line of a progress bar, which is drawn again without the cursor.
OURS = re.compile(r"\x1b\[[0-9;]*m|\r?\x1b\[[12]?[AK]|\x1b\[\?25[hl]|\r\n?")
HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Modules that write to standard output or error themselves, and what.
WRITERS = {
    "terminal/messages.py": "the functions for all others",
    "terminal/output.py": "results, tables, JSON",
    "client/cat.py": "the bytes of a resource, into a pipe",
    "chat/start.py": "a chat, like chat/terminal.py",
    "chat/terminal.py": "a chat, whose texts are cleaned by carrel.chat.terminal.text",
    "completion/completion.py": "scripts and words for a shell; words are printable",
    "server/logs.py": "log records, which carrel.log escapes",
    "server/message_log.py": "messages, whose parts are escaped there",
    "terminal/progress.py": "the progress bar",
    "recording/record.py": "the messages between a client and a server, unchanged",
    "recording/replay.py": "messages of a recording, unchanged",
    "__init__.py": "the help",
}


class Tty(io.StringIO):
    """Terminal that keeps what was written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True


def is_stream(node):
    return isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "__stdout__", "__stderr__")


def writes(tree):
    """Yield the calls that write to standard output or error."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "print":
            yield node
        elif isinstance(function, ast.Attribute) and function.attr in ("write", "writelines"):
            base = function.value
            if is_stream(base) or (isinstance(base, ast.Attribute) and is_stream(base.value)):
                yield node
        if any(is_stream(argument) for argument in node.args):
            yield node


def test_only_a_few_modules_of_commands_write_to_the_terminal():
    folder = Path(carrel.cli.__file__).parent
    files = [file for file in folder.rglob("*.py") if any(writes(ast.parse(file.read_text("utf-8"))))]
    found = {file.relative_to(folder).as_posix() for file in files}
    assert found - WRITERS.keys() == set(), "use carrel.cli.terminal.messages or carrel.cli.terminal.output"
    lost = {"terminal/progress.py", "server/message_log.py"}  # they keep the stream
    assert WRITERS.keys() - found <= lost


def check(shown):
    """Check that a text on a terminal has nothing of the hostile texts but their letters."""
    assert "evil" in shown
    text = OURS.sub("", shown)
    harmful = {letter for letter in text if unicodedata.category(letter) in HARMFUL} - {"\n"}
    assert harmful == set(), shown
    assert [line for line in text.split("\n") if line.strip().startswith("FORGED")] == []


def make_app():
    app = Server(HOSTILE, version=HOSTILE, title=HOSTILE, instructions=HOSTILE.replace("\n", " "))
    app.resources.add("memo://evil", HOSTILE.replace("\n", " "), name=HOSTILE, title=HOSTILE, description=HOSTILE)

    @app.resource("book://{name}", name=HOSTILE, description=HOSTILE, mime_type="text/evil")
    def book(name: str) -> str:
        return name

    flat = HOSTILE.replace("\n", " ")

    @app.tool(name="evil", title=HOSTILE, description=flat)
    def tool(a: str = flat) -> str:
        raise ValueError(HOSTILE)

    @app.prompt(name="evil", title=HOSTILE, description=HOSTILE)
    def prompt(evil: str = "") -> str:
        return flat

    return app


@pytest.fixture(scope="module")
def url():
    with over_http(make_app()) as origin:
        yield f"{origin}/mcp"


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    """Run a command in this process on a terminal, and return all that it prints.

    The server runs in this process as well. Its log does not belong on the terminal of the command.
    """
    monkeypatch.setattr(logging.getLogger("server of test_messages"), "disabled", True)
    monkeypatch.setattr("carrel.server.failures.log", Log("server of test_messages"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        out = Tty()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", out)
        main(list(arguments))
        return out.getvalue()

    return run


ASKING = {
    "call": ["evil"],
    "cat": ["memo://evil"],
    "context": ["evil"],
    "doctor": [],
    "find": ["evil"],
    "info": [],
    "login": [],
    "logout": [],
    "ls": [],
    "prompt": ["evil"],
    "skills": [],
    "tools": [],
    "tree": [],
    "watch": ["memo://evil-\x1b[2J\u202e"],
}


@pytest.mark.parametrize("command", ASKING)
def test_what_a_server_says_is_escaped(terminal, url, command):
    shown = terminal(command, url, *ASKING[command])
    check(shown if command not in ("skills", "logout", "watch") else f"{shown}evil")  # they print no name here


@pytest.mark.parametrize("command", ["info", "ls", "tools", "tree", "find", "prompt"])
def test_json_on_a_terminal_is_escaped_and_has_the_same_meaning(terminal, url, command):
    shown = terminal(command, url, *ASKING[command], "--json")
    check(shown)
    assert "\x9b31m\u202egnp\u2066\u2028" in "".join(texts(json.loads(shown)))


def texts(value):
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.items() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(list(part)) if isinstance(part, tuple) else texts(part)


def servers_file(file):
    entry = {"command": f"no-such-{HOSTILE}", "args": [HOSTILE], "env": {HOSTILE: "x", "API_KEY": HOSTILE}}
    far = {"type": "http", "url": "http://127.0.0.1:1/evil\u202e?x=1"}
    entries = {HOSTILE: entry, f"far {HOSTILE}": far, f"bad {HOSTILE}": {HOSTILE: 1}}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": entries}))
    return str(file)


def test_names_in_files_are_escaped_before_a_question(terminal, tmp_path):
    given = servers_file(tmp_path / f"{FILE}.json")
    shown = terminal("import", "--from", given, "--dry-run")
    check(shown)
    assert len([line for line in shown.split("\n") if "no-such-evil" in line]) == 1
    entries = {
        "codex": '[mcp_servers."evil \u202e"]\n# FORGED\u202e\n',
        "vscode": '{"servers": {"\u202eevil": {"command": "\u2066"}}}',
    }
    for name, text in entries.items():
        target = tmp_path / f"{FILE}.{name}"
        target.write_text(text)
        check(terminal("install", name, "http://127.0.0.1:1/mcp", "--config", str(target), "--dry-run"))


def test_settings_and_folders_are_escaped(terminal, tmp_path):
    (tmp_path / "carrel.toml").write_text('[server]\nname = "evil\\u202e\\u001b[2J"\n[[sources]]\npath = "\\u202e"\n')
    check(terminal("config") + "evil")
    folder = tmp_path / FILE
    folder.mkdir()
    (folder / FILE).write_text("x")
    check(terminal("init", str(folder)))
    (folder / "carrel.toml").write_text('["evil\\u202e\\u001b"]\nx = 1\n')
    check(terminal("config", "check", "--config", str(folder / "carrel.toml")))


def test_a_chat_that_reaches_no_server_escapes_their_names(terminal, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    check(terminal("chat", "--model", "openai:none", "--question", "?", servers_file(tmp_path / "evil.json")))


SERVING = ("serve", "run", "dev", "gateway", "record", "replay", "studio")
SERVER = f"from carrel import Server\napp = Server({HOSTILE!r})\napp.resources.add('memo://1', 'x', name={HOSTILE!r})\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", SERVING)
def test_a_command_that_serves_escapes_what_it_says_at_its_start(tmp_path, command):
    (tmp_path / "server.py").write_text(SERVER)
    recording = tmp_path / f"{FILE}.jsonl"
    recording.write_text("")
    if command == "serve":
        recording.rename(tmp_path / FILE)
        (tmp_path / FILE).write_text("x")
        (tmp_path / "server.py").unlink()
    port = str(free_port())
    arguments = {
        "serve": [str(tmp_path), "--http", port, "--name", "evil\u202e"],
        "run": ["server.py", "--http", port],
        "dev": ["server.py", "--http", port],
        "gateway": [servers_file(tmp_path / "servers.json"), "--http", port],
        "record": ["http://127.0.0.1:1/mcp", str(recording), "--port", port],
        "replay": [str(recording), "--http", port],
        "studio": ["server.py", servers_file(tmp_path / "servers.json"), "--no-open", "--port", port],
    }[command]
    with subprocess.Popen(
        run(command, *arguments), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as process:
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            errors = Errors(process)
            errors.wait_for("this link opens" if command == "studio" else r"127\.0\.0\.1:\d+")
            if command == "serve":
                errors.wait_for("curl")
        finally:
            process.terminate()
            _, rest = process.communicate()
            watchdog.cancel()
    check(errors.text + rest + "evil")


def test_every_command_has_a_test_here():
    others = {
        "policy",
        "audit",
        "token",
        "state",
        "import",
        "install",
        "config",
        "init",
        "chat",
        *SERVING,
        "completion",
    }
    assert ASKING.keys() | others == COMMANDS.keys()


def test_a_log_of_whole_messages_is_json_without_controls():
    lines = []
    log = MessageLog(raw=True, write=lines.append)
    log.sent(json.dumps({"jsonrpc": "2.0", "method": f"x\U000e0041{HOSTILE}"}, ensure_ascii=False).encode())
    assert json.loads(lines[0])["message"]["method"] == f"x\U000e0041{HOSTILE}"
    check(lines[0])


async def test_messages_to_a_restored_session_are_logged_before_its_first_request():
    lines, sent = [], asyncio.Event()

    class Sent(SilentChannel):
        def send(self, message, key=None):
            sent.set()

    reloading = Reloading(ServerLocation("books", None, None), MessageLog(write=lines.append))
    app = await reloading.open(Server("books"))
    app.resources.add("book://a", "a")
    async with Client(app):
        del lines[:]
        connection = app.endpoint.connect()
        connection.restore(Peer(REVISIONS[NOVEMBER]))
        app.endpoint.restore(connection, ConnectedClient(channel=Sent()), {"book://a": "book://a"})
        app.resources.changed("book://a")
        async with asyncio.timeout(60):
            await sent.wait()
        assert [line for line in lines if "notifications/resources/updated" in line]
