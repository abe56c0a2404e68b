"""Inline metadata of scripts, and the environment that uv makes for them."""

import os
import subprocess
import sys

import pytest

from carrel.cli.server import script
from carrel.cli.server.script import ScriptMetadata, missing, read_script, uv_command
from carrel.errors import ConfigError

HEADER = '# /// script\n# requires-python = ">=3.12"\n# dependencies = [\n#   "httpx",\n#   "rich>=13",\n# ]\n# ///\n'


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "server.py"
        path.write_bytes(text.encode())
        return str(path)

    return write


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_packages_are_read(write, ends):
    assert read_script(write(HEADER.replace("\n", ends))) == ScriptMetadata(["httpx", "rich>=13"], ">=3.12")


def test_a_file_without_a_block_has_none(write):
    assert read_script(write("# /// other\n# x = 1\n# ///\nimport os\n")) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEADER + "\n" + HEADER, "several blocks"),
        ("# /// script\n# dependencies = [\n# ///\n", "is not TOML"),
        ("# /// script\n# dependencies = 'x'\n# ///\n", "must be a list"),
        ("# /// script\n# requires-python = 3\n# ///\n", "must be text"),
    ],
)
def test_a_block_that_is_not_valid_is_refused(write, text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        read_script(write(text))


def test_uv_gets_the_packages_and_this_carrel_unless_the_file_names_one():
    arguments = uv_command(ScriptMetadata(["rich>=13"], ">=3.12"))
    assert arguments[arguments.index("--python") + 1] == ">=3.12,>=3.11"
    assert "rich>=13" in arguments
    assert arguments[-2] in ("--with", "--with-editable")
    assert uv_command(ScriptMetadata(["carrel[http]"], None))[-2:] == ["--with", "carrel[http]"]
    assert uv_command(ScriptMetadata(["carrel-mbox"], None))[-4:-2] == ["--with", "carrel-mbox"]


def test_without_uv_the_message_names_uv_and_the_packages(write, monkeypatch):
    monkeypatch.setattr(script, "find_uv", lambda: None)
    assert missing("server.py", write(HEADER), "httpx") == (
        "server.py needs httpx: install uv, which reads the packages from the file, or pip install httpx 'rich>=13'"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the program in place of uv is a shell script")
def test_a_command_runs_again_once_in_the_environment_that_uv_makes(write, tmp_path):
    """A program in place of uv: it prints its arguments, and runs the command that follows them with this Python."""
    uv = tmp_path / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "uv $*" >&2\nwhile [ "$1" != python ]; do shift; done\nshift\nexec "{sys.executable}" "$@"\n'
    )
    uv.chmod(0o755)
    file = write(HEADER + "from carrel import Server\napp = Server('books')\n")
    done = subprocess.run(
        [sys.executable, "-m", "carrel", "run", file],
        input=b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}\n',
        capture_output=True,
        timeout=120,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("uv run --quiet --no-project --isolated --python >=3.12,>=3.11 --with httpx --with rich>=13")
    assert line.endswith(f"python -P -m carrel run {file}")
    assert b'"id":1' in done.stdout
