"""``carrel chat`` as users and scripts run it: through the vendors' SDKs, with a server in a process of its own."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from carrel.cli import main
from chat.endpoints import (
    Answer,
    CallTool,
    Endpoint,
    Failure,
    Hold,
    Say,
    anthropic_endpoint,
    gemini_endpoint,
    openai_endpoint,
)
from chat.pty_program import Terminal, in_terminal
from support.carrel_process import BOOKS, COMMAND, PROGRAM, carrel
from support.forking import forked
from support.parties import node_modules, node_program

pytestmark = pytest.mark.slow

MODEL = "anthropic:claude-sonnet-5-5"
ADD = [Answer(Say("I add."), CallTool("books__add", {"a": 1, "b": 2})), Answer(Say("It is **3**."))]
ROOT = Path(__file__).parents[3]
#: Numbers in escape sequences for styles that set a colour of the text or its background.
COLOURS = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Environment whose conversations and approvals are in a folder of the test."""
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return {**folders, "HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def chat(*arguments: str) -> list[str]:
    """Return the command line of ``carrel chat``, in a fork of a process that has imported the SDK of the vendor."""
    return forked(sys.executable, str(ROOT / "tests/support/chat_command.py"), "chat", *arguments)


def ask(
    endpoint: Endpoint, home: dict[str, str], *arguments: str, question: str = "1 + 2?"
) -> subprocess.CompletedProcess[bytes]:
    """Run ``carrel chat`` without a terminal."""
    return subprocess.run(
        chat(*arguments),
        input=question.encode(),
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **home, **endpoint.environment},
    )


class Here:
    """``carrel chat`` without a terminal in this process, which is quicker; for what needs no process of its own."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch

    def ask(
        self, endpoint: Endpoint, home: dict[str, str], *arguments: str, question: str = "1 + 2?"
    ) -> tuple[int, str, str]:
        """Return the exit code, and what was printed on standard output and standard error."""
        for name, value in {**home, **endpoint.environment}.items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(question))
        code = main(["chat", *arguments])
        return code, *self._capfd.readouterr()


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(capfd, monkeypatch)


@pytest.mark.parametrize(
    ("model", "endpoint"),
    [
        (MODEL, anthropic_endpoint),
        ("openai:gpt-6.2-sol", openai_endpoint),
        ("gemini:gemini-3.8-flash", gemini_endpoint),
    ],
)
def test_a_question_in_a_pipe_is_answered_with_a_tool_by_each_vendor(
    model: str, endpoint: Callable[[list[Answer]], AbstractContextManager[Endpoint]], home: dict[str, str], here: Here
) -> None:
    with endpoint(ADD) as vendor:
        done = here.ask(vendor, home, BOOKS, "--model", model, "--print", "--yes", "books:add")
        assert done == (0, "It is **3**.\n", "")
        assert vendor.refusals == []
        assert b'"3"' in json.dumps(vendor.requests[1].body).encode().replace(b"\\", b"")


def test_events_are_lines_of_json_and_what_is_not_in_the_list_is_not_called(home: dict[str, str], here: Here) -> None:
    with anthropic_endpoint(ADD) as vendor:
        done = ask(vendor, home, BOOKS, "--model", MODEL, "--json", "--yes", "books:greet")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events if event["type"] != "text"] == ["tool_use", "tool_end", "turn_end"]
    assert events[-1]["text"] == "It is **3**."
    assert events[-1]["cost"] > 0
    assert next(event for event in events if event["type"] == "tool_end")["outcome"] == "rejected"
    with anthropic_endpoint(ADD) as vendor:
        _, _, complaint = here.ask(vendor, home, BOOKS, "--model", MODEL, "--no-save")
        assert "carrel: the call of books:add was not approved; --yes books:add approves it\n" in complaint


def test_errors_are_one_line_with_an_exit_code(home: dict[str, str], here: Here) -> None:
    with anthropic_endpoint([]) as vendor:
        for arguments, code, complaint in (
            (["--model", "antropic:x", "--question", "Hi"], 2, "did you mean 'anthropic'"),
            ([BOOKS, "--yes", "books"], 2, "--yes 'books': name each tool, as SERVER:TOOL"),
            ([BOOKS, "--yes", "books:*"], 2, "name each tool"),
            (["nothing.json"], 2, "there is no configuration file nothing.json"),
            (["nothing-like-it"], 2, "'nothing-like-it' is no file, folder or module, and no server"),
            (["--resume", "x"], 2, "there is no conversation 'x'"),
            (["--timeout", "0"], 2, "--timeout 0: give a number of seconds above 0"),
            (["--model", MODEL, "--question", "Hi", "--", "false"], 3, "no server could be reached"),
        ):
            found, _, stderr = here.ask(vendor, home, *arguments)
            assert found == code, stderr
            assert complaint in stderr
            assert stderr.splitlines()[-1].startswith("carrel: ")
        assert here.ask(vendor, home, question=" ")[0] == 2
        assert vendor.requests == []
    with anthropic_endpoint([Failure(401)]) as vendor:
        found, _, stderr = here.ask(vendor, home, "--model", MODEL)
        assert found == 2
        assert "ANTHROPIC_API_KEY" in stderr


def test_servers_of_a_configuration_and_commands_have_their_names(
    home: dict[str, str], here: Here, tmp_path: Path
) -> None:
    run = forked(sys.executable, PROGRAM, "run", BOOKS)
    server = {"command": run[0], "args": run[1:]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"library": server}}))
    command = shlex.join(run)
    with anthropic_endpoint([Answer(Say("Hi."))]) as vendor:
        code, out, _ = here.ask(
            vendor, home, str(file), BOOKS, f"more={command}", "--model", MODEL, "--no-resource-tools"
        )
        assert (code, out) == (0, "Hi.\n")
        names = {tool["name"].partition("__")[0] for tool in vendor.requests[0].body["tools"]}
        assert names == {"library", "books", "more"}


def converse(
    vendor: Endpoint, home: dict[str, str], *arguments: str, **options: Any
) -> AbstractContextManager[Terminal]:
    return in_terminal(chat(*arguments), **home, **vendor.environment, **{"TERM": "xterm-256color", **options})


def test_a_conversation_in_a_terminal_with_tools_cancellation_and_completion(home: dict[str, str]) -> None:
    script = [*ADD, Answer(Say("So far."), Hold()), Answer(Say("A book."))]
    with anthropic_endpoint(script) as vendor, converse(vendor, home, BOOKS, "--model", MODEL) as terminal:
        terminal.wait_for("Connecting to ")
        terminal.type("What is 1 + 2?\r")  # kept until the chat is ready
        terminal.wait_for("books: 4 tools, 1 resource, 1 prompt")
        terminal.wait_for("The model wants to call books:add")
        terminal.wait_for("[m]ore:")
        terminal.type("a\r")
        terminal.wait_for("● books:add  a=1 b=2")
        terminal.wait_for("╰ done · 1 character · ")
        terminal.wait_for("It is 3.")
        terminal.wait_for("● books")  # the line of state: the next message may be typed
        terminal.type("Wait\r")
        terminal.wait_for("So far.")
        terminal.type("\x03")
        terminal.wait_for("Stopped.")
        terminal.wait_for("● books")
        terminal.type("See @books:boo")
        terminal.wait_for("book://cover")
        terminal.type("k://lem/solaris\r")
        terminal.wait_for("attached books:book://lem/solaris")
        terminal.wait_for("A book.")
        terminal.wait_for("● books")
        terminal.type("\x04")
        terminal.wait_for("Saved. To continue: carrel chat --resume ")
        assert terminal.ended() == 0
        assert vendor.refusals == []
    files = [file for folder in (home["XDG_DATA_HOME"], home["XDG_CONFIG_HOME"]) for file in Path(folder).rglob("*.*")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files if file.is_file()} == {0o600}
    listed = carrel("chat", "--list", env={**os.environ, **home}).stdout.decode()
    assert "What is 1 + 2?" in listed
    with anthropic_endpoint([Answer(Say("Back."))]) as vendor:
        done = ask(vendor, home, "--resume", "--print")
        assert done.stdout == b"Back.\n"
        assert "What is 1 + 2?" in json.dumps(vendor.requests[0].body)


@pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])
def test_a_yes_that_was_typed_ahead_with_the_message_approves_no_call(home: dict[str, str], kind: str) -> None:
    enter = "\n" if kind == "dumb" else "\r"
    with anthropic_endpoint(ADD) as vendor, converse(vendor, home, BOOKS, "--model", MODEL, TERM=kind) as terminal:
        terminal.wait_for("\n> " if kind == "dumb" else "Connecting to ")
        terminal.type(f"What is 1 + 2?{enter}y{enter}a{enter}")  # at once: all of it arrives before the question
        terminal.wait_for("[m]ore:")
        terminal.type(f"n{enter}")
        terminal.wait_for("It is")
        assert "has not approved this call" in json.dumps(vendor.requests[1].body)


def test_a_dumb_terminal_has_plain_lines_without_any_escape_sequence(home: dict[str, str]) -> None:
    with (
        anthropic_endpoint([*ADD, Answer(Say("So far."), Hold())]) as vendor,
        converse(vendor, home, BOOKS, "--model", MODEL, TERM="dumb") as terminal,
    ):
        terminal.wait_for("\n> ")
        terminal.type("What is \\\n1 + 2?\n")
        terminal.wait_for("Allow? [y]es, [a]lways for this tool, [n]o, [m]ore: ")
        terminal.type("n\n")
        terminal.wait_for("books:add: rejected")
        terminal.wait_for("It is **3**.\n> ")
        terminal.type("Wait\n")
        terminal.wait_for("So far.")
        terminal.type("\x03")
        terminal.wait_for("Stopped.\n> ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.raw
        assert "What is \\n1 + 2?" in json.dumps(vendor.requests[0].body)


def test_no_colour_where_it_is_not_wanted(home: dict[str, str]) -> None:
    with (
        anthropic_endpoint([Answer(Say("# Red\n\n`code`\n"))]) as vendor,
        converse(vendor, home, "--model", MODEL, NO_COLOR="1") as terminal,
    ):
        terminal.wait_for("/help shows what you can do")
        terminal.wait_for(MODEL)  # the line of state
        terminal.type("Hi\r")
        terminal.wait_for("code")
        terminal.wait_for(MODEL)
        terminal.type("\x04")
        assert terminal.ended() == 0
        numbers = {int(one) for style in re.findall(rb"\x1b\[([0-9;]+)m", terminal.raw) for one in style.split(b";")}
        assert numbers & COLOURS == set()


def test_without_the_packages_of_the_terminal_one_line_says_what_to_install(
    home: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "prompt_toolkit.py").write_text("raise ImportError('prompt_toolkit')")
    with (
        anthropic_endpoint([]) as vendor,
        in_terminal([*COMMAND, "chat"], **home, **vendor.environment, PYTHONPATH=str(tmp_path)) as terminal,
    ):
        terminal.wait_for("carrel: carrel chat needs prompt-toolkit and rich: pip install 'carrel[chat]'")
        assert terminal.ended() == 2


def test_no_other_command_loads_the_packages_of_the_chat() -> None:
    program = "import sys; from carrel.cli import main; main(['--help']); main(['tools', '--help'])"
    code = f"import contextlib\nwith contextlib.suppress(SystemExit):\n  {program.replace('; ', chr(10) + '  ')}\n"
    code += "assert not {'prompt_toolkit', 'rich', 'carrel.chat'} & set(sys.modules), sys.modules"
    done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_server_of_another_project_is_used_with_links_images_and_roots(home: dict[str, str], tmp_path: Path) -> None:
    program = node_modules() / "@modelcontextprotocol/server-everything/dist/index.js"
    command = shlex.join([node_program(), str(program)])
    script = [
        Answer(
            CallTool("everything__echo", {"message": "red lamp"}),
            CallTool("everything__get-resource-links", {"count": 2}),
            CallTool("everything__get-tiny-image"),
            CallTool("everything__get-roots-list"),
        ),
        Answer(Say("I have seen it.")),
    ]
    allowed = ",".join(
        f"everything:{tool}" for tool in ("echo", "get-resource-links", "get-tiny-image", "get-roots-list")
    )
    with anthropic_endpoint(script) as vendor:
        done = ask(vendor, home, f"everything={command}", "--model", MODEL, "--yes", allowed, "--root", str(tmp_path))
        assert (done.returncode, done.stdout) == (0, b"I have seen it.\n"), done.stderr
        assert vendor.refusals == ["Could not process image"]  # the checksum of its colour profile is wrong
        assert b"Retried without contents that the model may reject: image/png, 4,033 bytes." in done.stderr
        sent = json.dumps(vendor.requests[2].body["messages"][-1])
        assert "Echo: red lamp" in sent
        assert tmp_path.as_uri() in sent
        assert "Resource of server everything: demo://" in sent
