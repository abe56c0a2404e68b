"""``carrel completion``: real shells understand the scripts, and complete with them."""

import shutil
import subprocess
import sys

import pytest

from carrel.cli import COMMANDS, main
from carrel.cli.completion.completion import SHELLS, whole_parser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Return the scripts of all shells, as files."""
    folder = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        command = [sys.executable, "-m", "carrel", "completion", shell]
        (folder / shell).write_bytes(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    return folder


def completed(scripts, folder, *words):
    """Return how bash completes the last of the words."""
    program = (
        f'source {scripts / "bash"}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
        "COMP_POINT=${#COMP_LINE}; function=$(complete -p carrel | sed 's/.*-F \\([^ ]*\\).*/\\1/'); "
        '$function carrel "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", program, "bash", "-", "carrel", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_options_choices_and_files(scripts, tmp_path):
    (tmp_path / "carrel.toml").write_text("")
    (tmp_path / "car").mkdir()
    assert completed(scripts, tmp_path, "") >= set(COMMANDS)
    assert completed(scripts, tmp_path, "in") == {"info", "init", "install"}
    assert completed(scripts, tmp_path, "serve", "--allow-h") == {"--allow-host"}
    assert completed(scripts, tmp_path, "serve", "--allow") == {"--allow-functions", "--allow-host", "--allow-origin"}
    assert completed(scripts, tmp_path, "run", "--log-level", "") == {"debug", "info", "warning", "error"}
    assert completed(scripts, tmp_path, "config", "") >= {"show", "check", "schema"}
    assert completed(scripts, tmp_path, "serve", "--config", "carrel") == {"carrel.toml"}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_script_is_valid_in_its_shell(shell, scripts):
    done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_every_option_is_in_the_script(shell, scripts):
    text = (scripts / shell).read_text()
    [commands] = [action for action in whole_parser()._actions if action.dest == "command"]
    assert set(commands.choices) == set(COMMANDS)
    for parser in commands.choices.values():
        for action in parser._actions:
            for option in action.option_strings:
                assert option.lstrip("-") in text


def test_an_unknown_shell_and_a_missing_package_are_explained(monkeypatch, capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'carrel[completion]'" in capsys.readouterr().err
