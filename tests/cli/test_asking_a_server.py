"""``carrel call``, ``carrel ls`` and ``carrel cat``: real servers, and a real terminal."""

import hashlib
import json
import os
import pty
import shlex
import subprocess
import sys
import threading

import pytest

from carrel.cli import main
from carrel.cli.client.call import kinds_of, read_arguments
from carrel.cli.client.ls import tool_row
from carrel.cli.target import resolve
from carrel.errors import ConfigError
from carrel.wire.tools import Tool
from support.carrel_process import BOOKS, COMMAND, PROGRAM, carrel, serving
from support.forking import forked


@pytest.fixture(scope="module")
def file():
    return BOOKS


def started(*arguments):
    """Return a command line of ``carrel`` in a fork."""
    return forked(sys.executable, PROGRAM, *arguments)


EVIL = """
from carrel import Server

app = Server("x")

@app.tool(description="\\x1b[31mred")
def t() -> str:
    return "\\x1b[2J"
"""
LISTED = """\
Resources
  book://cover  image/png  5 B

Templates
  book://{author}/{title}  text/plain  A book

Tools
  add(a: integer, b: integer)           Add two numbers.
  fail()
  greet(name: string, times?: integer)
  order()

Prompts
  review(code)  Review some code.
"""


def test_a_file_a_url_and_a_command_are_listed_alike(file):
    with serving("run", file) as (url, _):
        for target in (
            [file],
            [f"{file}:app"],
            [url],
            ["--", *started("run", file)],
            [shlex.join(started("run", file))],
        ):
            done = carrel("ls", *target)
            assert (done.returncode, done.stdout.decode(), done.stderr) == (0, LISTED, b"")


def test_a_source_is_asked_through_a_server_that_shares_it(tmp_path):
    (tmp_path / "note.txt").write_text("milk")
    done = carrel("cat", tmp_path.as_uri(), f"{tmp_path.as_uri()}/note.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"milk\n", b"")
    for source in ("git:.", "git+file:///srv/shop.git", "sqlite:///shop.db", "logs:journal", "skills:pack"):
        assert resolve(source).server[-2:] == ["serve", source]


def all_of(controller, terminal):
    """Return all that was written to a terminal, and close it; it is in several pieces, as it was written."""
    os.write(terminal, b"\0")
    shown = b""
    while not shown.endswith(b"\0"):
        shown += os.read(controller, 65536)
    os.close(terminal)
    os.close(controller)
    return shown[:-1].decode()


def test_on_a_terminal_titles_are_bold_and_what_a_server_says_controls_nothing(tmp_path):
    (tmp_path / "evil.py").write_text(EVIL)
    shown = []
    for arguments in (["ls"], ["call"]):
        controller, terminal = pty.openpty()
        subprocess.run(
            [*COMMAND, *arguments, str(tmp_path / "evil.py"), *(["t"] if arguments == ["call"] else [])],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != "NO_COLOR"},
            timeout=120,
        )
        shown.append(all_of(controller, terminal))
    assert shown == ["\x1b[1mTools\x1b[0m\r\n  t()  \\x1b[31mred\r\n", "\\x1b[2J\r\n"]


NOISY = """
import sys

from carrel import Server

sys.stderr.write("\x1b[2J\x1b]0;title\x07started\\n")
app = Server("x")

@app.tool
def t() -> str:
    return "done"
"""


def test_what_a_server_writes_on_standard_error_controls_no_terminal_and_is_kept_in_a_file(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    command = [*started("call"), str(tmp_path / "noisy.py"), "t"]
    controller, terminal = pty.openpty()
    quiet = subprocess.DEVNULL
    plain = {**os.environ, "TERM": "dumb"}  # without a progress bar
    subprocess.run(command, stdin=quiet, stdout=quiet, stderr=terminal, env=plain, timeout=120)
    first = all_of(controller, terminal).partition("\r\n")[0]
    assert first == "\\x1b[2J\\x1b]0;title\\x07started"
    assert carrel("call", str(tmp_path / "noisy.py"), "t").stderr.startswith(b"\x1b[2J\x1b]0;title\x07started\n")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": ["a"]},
        {"type": "object", "properties": {"a": {}}, "required": 5},
        {"type": "object", "properties": {"a": {}}, "required": [5, {"x": 1}]},
        {"type": "object", "properties": {"a": {"anyOf": 5, "oneOf": None}}},
        {"type": "object", "properties": {"a": {"type": 5}}},
        {"type": "object", "properties": {"a": {"enum": 5}}},
        {"type": "object", "properties": {"a": 5}, "required": None, "additionalProperties": 5},
    ],
)
def test_a_tool_whose_schema_is_no_schema_is_shown_and_called_all_the_same(schema):
    tool = Tool(name="odd", input_schema=schema)
    assert tool_row(tool)[0] in ("odd()", "odd(a?: any value)")
    assert read_arguments(tool, [("a", "1", False)]) == {"a": "1"}


def test_a_list_as_json_has_all_that_the_server_says(file):
    listed = json.loads(carrel("ls", file, "--json").stdout)
    assert listed["resources"][0] == {"uri": "book://cover", "name": "cover", "mimeType": "image/png", "size": 5}
    assert [tool["name"] for tool in listed["tools"]] == ["add", "fail", "greet", "order"]


def test_a_folder_is_listed_as_it_would_be_shared(tmp_path):
    (tmp_path / "a.md").write_text("# A")
    assert f"file://{tmp_path}/a.md" in carrel("ls", str(tmp_path)).stdout.decode()
    assert carrel("cat", str(tmp_path), f"file://{tmp_path}/a.md").stdout == b"# A\n"


def test_text_is_printed_and_bytes_go_into_a_pipe_but_not_onto_a_terminal(file):
    assert carrel("cat", file, "book://lem/solaris").stdout == b"solaris by lem\n"
    assert carrel("cat", file, "book://cover").stdout == b"\x89PNG\x00"
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        started("cat", file, "book://cover"), stdin=terminal, stdout=terminal, stderr=subprocess.PIPE
    ) as process:
        _, errors = process.communicate(timeout=120)
    os.close(terminal)
    os.close(controller)
    assert process.returncode == 2
    assert errors == b"carrel: book://cover is image/png, 5 bytes: write it to a file with -o FILE\n"


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["add", "a=1", "b:=2"], "3\n"),
        (["greet", "name=5"], "Hello 5! \n"),
        (["greet", "name=Ann", "times=2"], "Hello Ann! Hello Ann! \n"),
        (["greet", "name=a=b"], "Hello a=b! \n"),
    ],
)
def test_a_tool_is_called_with_arguments_as_its_schema_says(file, arguments, out):
    done = carrel("call", file, *arguments)
    assert (done.returncode, done.stdout.decode()) == (0, out)


TASK = """
from carrel import Context, Server

app = Server("binder")


@app.tool(task="optional")
async def bind(context: Context) -> str:
    await context.report_progress(1, 2, "glued")
    return "bound"
"""


def test_the_progress_of_a_tool_that_may_be_a_task_is_on_standard_error(tmp_path):
    file = tmp_path / "binder.py"
    file.write_text(TASK)
    done = carrel("call", str(file), "bind")
    assert (done.stderr, done.stdout) == (b"1 of 2 glued\n", b"bound\n")


def test_progress_is_on_standard_error_and_the_whole_result_as_json(file):
    done = carrel("call", "add", "a=1", "b=2", "--json", "--", *started("run", file))
    assert done.stderr == b"1 of 2 half\n"
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["call", "FILE", "fail", "--quiet"], 1, "on fire"),
        (["call", "FILE", "order"], 1, "elicitation"),
        (["cat", "FILE", "book://none"], 1, "book://none"),
        (["cat", "FILE", "cover"], 1, "cover is not the URI of a resource; carrel ls FILE lists them"),
        (["call", "FILE", "ad"], 2, "books.py has no tool 'ad'; did you mean 'add'?"),
        (["call", "FILE", "add", "a=1"], 2, "add needs b (integer)"),
        (["call", "FILE", "greet", "nam=x"], 2, "greet has no argument 'nam'; did you mean 'name'?"),
        (["call", "FILE", "greet", "name:={"], 2, "name:={ is not JSON"),
        (["call", "FILE", "greet", "name"], 2, "'name' is not an argument: write key=value, or key:=json"),
        (["call", "FILE"], 2, "required: TOOL"),
        (["ls", "FILE", "--header", "x: y"], 2, "--header is for URLs"),
        (["ls", "http://127.0.0.1:9/mcp", "--header", "x"], 2, "a header is 'NAME: VALUE'"),
        (["ls", "FILE", "--timeout", "0"], 2, "give a number of seconds above 0"),
        (["ls", "nowhere.py"], 2, "no such file: nowhere.py"),
        (["ls", ""], 2, "TARGET is empty"),
        (["ls", "ftp://x/y"], 2, "ftp://x/y is neither the URL of a server (http://, https://) nor a source"),
        (["ls", "localhost:8000/mcp"], 2, "for a URL, write http://localhost:8000/mcp"),
        (["ls", "FILE:nope"], 2, "carrel: FILE has no nope"),
        (["ls", "--"], 2, "write the command of a server after --"),
        (["ls", "http://127.0.0.1:9/mcp"], 3, "cannot be reached"),
        (["ls", "--", sys.executable, "-c", "raise SystemExit('no server')"], 3, "has ended with exit status 1"),
        (["ls", "--", "/no/such/program"], 2, "cannot be started"),
    ],
)
def test_exit_codes_tell_what_went_wrong_and_the_last_line_why(file, arguments, code, complaint):
    done = carrel(*(one.replace("FILE", file) for one in arguments))
    complaint = complaint.replace("FILE", file)
    assert (done.returncode, done.stdout) == (code, b"")
    assert complaint in done.stderr.decode().splitlines()[-1]
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["ls"], ["doctor"], ["call", "add"]])
def test_a_file_that_cannot_be_loaded_is_one_line_and_wrong_use(tmp_path, arguments):
    file = tmp_path / "broken.py"
    file.write_text("1 / 0")
    command, *others = arguments
    done = carrel(command, str(file), *others)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"carrel: {file} cannot be loaded: ZeroDivisionError: division by zero (broken.py, line 1)\n"
    )


def test_questions_are_asked_on_the_terminal(file):
    controller, terminal = pty.openpty()
    answers = [("title", "Solaris"), ("count", "many"), ("count", ""), ("size", "m"), ("Send this", "y")]
    with subprocess.Popen(
        started("call", file, "order"), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        asked_so_far = b""
        os.write(controller, b"before any question\ny\n")  # no answer to anything
        for field, answer in answers:
            while not (
                asked_so_far.rstrip().endswith((b":", b"]")) and field.encode() in asked_so_far.splitlines()[-1]
            ):
                chunk = process.stderr.read1()
                assert chunk, asked_so_far
                asked_so_far += chunk
            os.write(controller, f"{answer}\n".encode())
            asked_so_far = b""
        out = process.stdout.read()
        process.wait()
        watchdog.cancel()
    os.close(terminal)
    os.close(controller)
    assert process.returncode == 0
    assert out == b"accept [('count', 2), ('size', 'm'), ('title', 'Solaris')]\n"


@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"enum": ["a", 1]}, '"a" or 1 string'),
        ({"$ref": "#/$defs/Book"}, "Book"),
        ({"anyOf": [{"$ref": "#/$defs/Book"}, {"type": "null"}], "title": "Item"}, "Book or null"),
        ({"title": "Anything"}, "Anything"),
        ({}, "any value"),
        (None, "any value"),
    ],
)
def test_the_types_of_a_field_are_named(field, kinds):
    assert kinds_of(field) == kinds


def test_text_becomes_what_the_schema_takes_and_stays_text_where_it_takes_text():
    fields = {"n": {"type": "integer"}, "s": {"type": "string"}, "o": {"anyOf": [{"type": "number"}, {"type": "null"}]}}
    tool = Tool(name="t", input_schema={"type": "object", "properties": fields})
    pairs = [("n", "5", False), ("s", "5", False), ("o", "null", False), ("free", "5", False), ("n2", "5", True)]
    assert read_arguments(tool, pairs) == {"n": 5, "s": "5", "o": None, "free": "5", "n2": 5}
    assert read_arguments(tool, [("n", "five", False)]) == {"n": "five"}


def test_text_for_a_model_is_json_and_for_an_enumeration_of_texts_it_is_text():
    refers = {name: {"$ref": f"#/$defs/{name}"} for name in ("Book", "Size", "Lost")}
    defined = {"Book": {"type": "object"}, "Size": {"enum": ["5", "7"], "type": "string"}}
    schema = {"type": "object", "properties": {**refers, "free": {"title": "Free"}}, "$defs": defined}
    pairs = [("Book", '{"a": 1}', False), ("Size", "5", False), ("Lost", "5", False), ("free", "5", False)]
    found = read_arguments(Tool(name="t", input_schema=schema), pairs)
    assert found == {"Book": {"a": 1}, "Size": "5", "Lost": 5, "free": "5"}


@pytest.mark.parametrize("name", ["-dir", "--help"])
def test_a_folder_with_the_name_of_an_option_is_shared(name, tmp_path, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve(f"./{name}").server[-2:] == ["serve", f".{os.sep}{name}"]


def test_a_target_that_is_nothing_is_refused_with_the_near_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(ConfigError, match=r"notes\.md is not a Python file"):
        resolve("notes.md")
    with pytest.raises(ConfigError, match="is not a command"):
        resolve("python 'x")
    assert main(["cat", "notes.py", "x:y"]) == 2


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [(["cat", BOOKS], "URI"), (["call", BOOKS], "TOOL"), (["prompt"], "TARGET, PROMPT"), (["ls"], "TARGET")],
)
def test_only_arguments_that_are_needed_are_said_to_be_missing(arguments, missing, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"carrel: the following arguments are required: {missing} (see carrel ")


def test_a_server_without_an_authorization_server_wants_a_header_and_errors_of_its_endpoint_name_it(file, tmp_path):
    tokens = tmp_path / "tokens.txt"
    tokens.write_text(f"sha256:{hashlib.sha256(b'carrel_of_lem').hexdigest()} lem\n")
    with serving("run", file, "--tokens", str(tokens)) as (url, _):
        done = carrel("ls", url)
    assert done.returncode == 3
    assert b"carrel login" not in done.stderr
    assert b"names no authorization server: ask for a token, and use --header 'Authorization: Bearer" in done.stderr
    with serving("run", file) as (url, _):
        root = url.removesuffix("mcp")
        for command in ("ls", "info", "doctor", "login"):
            done = carrel(command, root)
            assert done.returncode
            assert done.stderr.decode() == f"carrel: {root}: The MCP endpoint is /mcp\n"


def test_files_in_the_current_folder_do_not_replace_modules(tmp_path):
    (tmp_path / "msgspec.py").write_text("open('executed', 'w').close()")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("Buy wine.")
    command = [sys.executable, "-P", "-m", "carrel", "ls", "./notes"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert b"plan.md" in done.stdout, done
    assert not (tmp_path / "executed").exists()
