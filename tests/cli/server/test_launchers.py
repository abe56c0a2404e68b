"""Commands that start a program: ``uvx``, ``uv run``, ``python``, ``mcp run``, and commands of packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from carrel.cli.server import launchers, script
from carrel.cli.server.launchers import Launch, read_launch
from carrel.errors import ConfigError

RUN = ["python", "-P", "-m", "carrel", "run", "--compat", "--"]


@pytest.fixture(autouse=True)
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "find_uv", lambda: "/bin/uv")
    monkeypatch.setattr(script, "own", lambda: ["--with", "carrel"])


@pytest.mark.parametrize(
    ("words", "start", "program"),
    [
        ("uvx pack-age --a b", "--with pack-age", "pack-age --a b"),
        ("uvx pack-age@latest", "--with pack-age", "pack-age"),
        ("uv tool run --python 3.12 pack-age@1.2", "--python 3.12 --with pack-age==1.2", "pack-age"),
        ("uvx --from pack-age>=2 command x", "--with pack-age>=2", "command x"),
        ("uvx --from=pack-age pack-age", "--with=pack-age", "pack-age"),
    ],
)
def test_uvx_becomes_an_environment_with_the_package_and_carrel(words: str, start: str, program: str) -> None:
    command = read_launch(words.split(), "--compat").command
    isolated = ["/bin/uv", "run", "--quiet", "--no-project", "--isolated"]
    assert command == [*isolated, *start.split(), "--with", "carrel", *RUN, *program.split()]


def test_uv_run_keeps_its_options() -> None:
    words = ["uv", "--directory", "/x", "run", "--with", "mcp[cli]", "mcp", "run", "server.py"]
    expected = ["/bin/uv", "--directory", "/x", "run", "--with", "mcp[cli]", "--with", "carrel", *RUN]
    assert read_launch(words, "--compat").command == [*expected, "mcp", "run", "server.py"]
    assert read_launch(words[-3:], "--compat") == Launch(target="server.py")


def test_python_runs_the_program_in_this_process_or_is_another_python(tmp_path: Path) -> None:
    assert read_launch([sys.executable, "-u", "-m", "a", "b"], "--compat") == Launch(["-m", "a", "b"])
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    launch = read_launch([str(other), "a.py"], "--compat=mcp2")
    assert launch.command == [str(other), "-P", "-m", "carrel", "run", "--compat=mcp2", "--", "a.py"]


@pytest.mark.parametrize(
    "first",
    ["#!{python}\n", "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n'],
)
def test_a_command_of_another_environment_runs_there(first: str, tmp_path: Path) -> None:
    command = tmp_path / "bin" / "server"
    command.parent.mkdir()
    command.write_text(first.format(python=tmp_path / "bin" / "python"))
    assert read_launch([str(command), "-x"], "--compat") == Launch([str(command), "-x"])  # no virtual environment
    (tmp_path / "pyvenv.cfg").write_text("")
    expected = [str(tmp_path / "bin" / "python"), *RUN[1:], str(command), "-x"]
    assert read_launch([str(command), "-x"], "--compat").command == expected
    command.write_text(first.format(python=sys.executable))
    assert read_launch([str(command), "-x"], "--compat") == Launch([str(command), "-x"])


@pytest.mark.parametrize("words", ["npx -y server", "docker run x", "python -c 1", "uvx --quiet", "/bin/ls"])
def test_other_commands_are_an_error(words: str) -> None:
    with pytest.raises(ConfigError):
        read_launch(words.split(), "--compat")


def test_a_command_of_another_language_gets_no_advice_for_python() -> None:
    with pytest.raises(ConfigError, match=r"^npx starts no Python program that Carrel can run$"):
        read_launch(["npx", "-y", "server"], "--compat")


def test_without_uv_the_message_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "find_uv", lambda: None)
    with pytest.raises(ConfigError, match=r"uv is not installed: https://docs\.astral\.sh/uv/"):
        launchers.uv()
