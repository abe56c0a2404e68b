"""The ``carrel`` command itself."""

import os
import re
import subprocess
import sys

import pytest

import carrel
from carrel.cli import COMMANDS, main
from support import carrel_process


def run(*arguments):
    return carrel_process.carrel(*arguments, env={**os.environ, "COLUMNS": "80"}, text=True)


def test_it_tells_its_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"carrel {carrel.__version__}\n", "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", carrel.__version__)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(arguments, capsys):
    assert main(arguments) == 0
    text = capsys.readouterr().out
    for name, (_, summary) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: carrel {command} ")
    assert "examples:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["srve"], "there is no command 'srve'; did you mean 'serve'? (see carrel --help)"),
        (["xyzzy"], "there is no command 'xyzzy' (see carrel --help)"),
        (["--serve"], "there is no command '--serve'; did you mean 'serve'? (see carrel --help)"),
        (
            ["serve"],
            "nothing to share: name a path, a URL, --skills FOLDER, or a carrel.toml (see carrel serve --help)",
        ),
        (["serve", "/nowhere/at/all"], "no such file or folder: /nowhere/at/all"),
        (["serve", "a\nb"], "no such file or folder: a b"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments, complaint):
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"carrel: {complaint}\n")


def test_an_argument_that_cannot_be_sent_is_named(tmp_path, capsys):
    (tmp_path / "tea.md").write_text("Tea")
    assert main(["find", str(tmp_path), "tea\udcff"]) == 2
    assert capsys.readouterr().err == "carrel: the argument tea\\udcff is not UTF-8\n"


def test_a_reader_that_goes_away_leaves_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "carrel", "--help"],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == b""


def test_only_the_chosen_command_is_loaded():
    code = (
        "import sys\n"
        "from carrel.cli import main\n"
        "main(['--version'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('carrel.cli')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "['carrel.cli']"
