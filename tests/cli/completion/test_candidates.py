"""Completion of what a server knows: from a command line, and in real shells at a real terminal."""

import json
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from carrel.cli.completion.candidates import candidates, for_bash, split
from support.carrel_process import BOOKS, PROGRAM
from support.debian import program
from support.forking import forked

SERVER = """
from typing import Literal
from carrel import Server

app = Server("shop")

@app.tool
def paint(colour: Literal["blue", "red", "rose"], bright: bool = False, count: int = 1) -> str:
    return colour

@app.tool
def part(name: str) -> str:
    return name

@app.resource("book://{author}/{title}")
def book(author: str, title: str) -> str:
    return title

@book.complete("author")
def authors(prefix: str) -> list[str]:
    return [name for name in ("leguin", "lem") if name.startswith(prefix)]

@book.complete("title")
def titles(prefix: str, context: dict[str, str]) -> list[str]:
    return [name for name in {"lem": ("solaris", "fiasco")}.get(context.get("author"), ()) if name.startswith(prefix)]

app.resources.add("note://one", "One")

@app.prompt
def review(code: str, language: str = "en") -> str:
    return code

@review.complete("language")
def languages(prefix: str) -> list[str]:
    return [name for name in ("german", "greek") if name.startswith(prefix)]
"""
TEMPLATE = "'book://{author}/{title}'"
#: The command, for shells: it waits for a server longer than a person would.
PATIENT = """\
import sys
import support.carrel_modules
from carrel.cli.completion import candidates
from carrel.cli import main
candidates.PATIENCE = 60.0
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a server, and a configuration that has a name for it."""
    here = tmp_path_factory.mktemp("here")
    (here / "application.py").write_text(SERVER)
    (here / "bin").mkdir()
    (here / "patient.py").write_text(PATIENT)
    patient = shlex.join(forked(sys.executable, str(here / "patient.py")))
    (here / "bin/carrel").write_text(f'#!/bin/sh\nexec {patient} "$@"\n')
    (here / "bin/carrel").chmod(0o755)
    command, *arguments = map(json.dumps, forked(sys.executable, PROGRAM, "run", str(here / "application.py")))
    (here / "carrel.toml").write_text(f"[servers.shop]\ncommand = {command}\nargs = [{', '.join(arguments)}]\n")
    return here


@pytest.fixture
def here(folder, monkeypatch):
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(folder / "home"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("carrel.cli.completion.candidates.PATIENCE", 60.0)
    return folder


def environment(folder):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "HOME": str(folder / "home"), "PATH": path}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("carrel call sh", ["shop"]),
        ("carrel tools @s", ["@shop"]),
        ("carrel login ", ["shop"]),
        ("carrel call shop pa", ["paint", "part"]),
        ("carrel call --timeout 3 shop p", ["paint", "part"]),
        ("carrel call application.py part ", ["name="]),
        ("carrel call shop paint ", ["colour=", "bright=", "count="]),
        ("carrel call shop paint colour=red b", ["bright="]),
        ("carrel call shop paint colour=r", ["colour=red", "colour=rose"]),
        ("carrel call shop paint bright=", ["bright=true", "bright=false"]),
        ("carrel tools shop pai", ["paint"]),
        ("carrel prompt shop ", ["review"]),
        ("carrel prompt shop review code=x ", ["language="]),
        ("carrel prompt shop review language=g", ["language=german", "language=greek"]),
        ("carrel cat shop n", ["note://one"]),
        ("carrel cat shop 'book:", ["book://{author}/{title}"]),
        (f"carrel cat shop {TEMPLATE} --a", ["--author"]),
        (f"carrel cat shop {TEMPLATE} --author le", ["leguin", "lem"]),
        (f"carrel cat shop {TEMPLATE} --author=le", ["--author=leguin", "--author=lem"]),
        (f"carrel cat shop {TEMPLATE} --author lem --title ", ["solaris", "fiasco"]),
        (f"carrel cat shop {TEMPLATE} author=lem title=s", ["title=solaris"]),
        (f"carrel cat shop {TEMPLATE} --author lem ", ["title="]),
        ("carrel watch shop n", ["note://one"]),
        ("carrel ls shop ", []),
        ("carrel call nothing-like-it ", []),
        ("carrel call shop nothing ", []),
        ("carrel call shop --timeout ", []),
        ("carrel call p -- ", []),
        ("carrel serve ", []),
        ("carrel", []),
        ("", []),
    ],
)
def test_a_command_line_is_completed_with_what_the_server_knows(here, line, words):
    assert candidates(line).words == words


def test_a_server_that_hangs_is_given_up(here, monkeypatch):
    monkeypatch.setattr("carrel.cli.completion.candidates.PATIENCE", 0.3)
    assert candidates(f"carrel call '{sys.executable} -c \"import time; time.sleep(1000)\"' ").words == []


@pytest.mark.parametrize(
    ("line", "words", "typed"),
    [
        ("carrel ca", ["carrel"], "ca"),
        ("carrel call ", ["carrel", "call"], ""),
        ("carrel cat x 'a b", ["carrel", "cat", "x"], "a b"),
        ('carrel cat x "a b', ["carrel", "cat", "x"], "a b"),
        ("carrel cat x a\\ b", ["carrel", "cat", "x"], "a b"),
        ("carrel cat 'a b' c#", ["carrel", "cat", "a b"], "c#"),
    ],
)
def test_a_line_is_split_as_shells_do(line, words, typed):
    assert split(line) == (words, typed)


def test_bash_gets_the_part_after_the_last_colon_or_equals_sign_with_backslashes(here):
    found = candidates("carrel cat shop book:")
    assert for_bash("", ":", found) == [r"//\{author\}/\{title\}"]
    assert for_bash("", "'book:", found) == ["book://{author}/{title}"]
    found = candidates("carrel call shop paint colour=r")
    assert for_bash("", "r", found) == ["red", "rose"]
    found = candidates("carrel call shop paint colour=")
    assert for_bash("", "=", found) == ["blue", "red", "rose"]


def terminal(command, setup, typed, wanted, folder):
    """Type into a shell at a terminal, and return what it shows once ``wanted`` is there."""
    variables = {**environment(folder), "TERM": "dumb", "PS1": "ready> ", "PROMPT": "ready> "}
    child, screen = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, variables)
    shown = ""

    def wait_for(text):
        nonlocal shown
        deadline = time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < deadline, f"{text!r} is not in {shown!r}"
            if select.select([screen], [], [], 0.5)[0]:
                shown += os.read(screen, 4096).decode("utf-8", "replace")

    try:
        os.write(screen, f"{setup}; echo se''t\n".encode())
        wait_for("set\r\n")
        shown = shown.rpartition("set\r\n")[2]
        wait_for("ready> ")
        shown = ""
        os.write(screen, typed.encode())
        wait_for(wanted)
        return shown
    finally:
        os.write(screen, b"\x03\x04")
        os.close(screen)
        os.waitpid(child, 0)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    home = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "zsh", "fish"):
        command = [sys.executable, "-m", "carrel", "completion", shell]
        (home / shell).write_bytes(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    return home


TYPED = [
    ("carrel call sho\t", "carrel call shop "),
    ("carrel call shop pai\t", "shop paint "),
    ("carrel call shop paint cou\t", "paint count="),
    ("carrel call shop paint colour=b\t", "colour=blue"),
    ("carrel cat shop note:\t", "note://one"),
    (f"carrel cat shop {TEMPLATE} --auth\t", "--author "),
    (f"carrel cat shop {TEMPLATE} --author leg\t", "--author leguin"),
    (f"carrel cat shop {TEMPLATE} --author lem --title so\t", "--title solaris"),
]


def repeated(lines):
    return [pytest.param(*line, marks=pytest.mark.exhaustive) for line in lines]


# Each line in at least one shell: all shells ask the same program, which the tests above test.
@pytest.mark.slow
@pytest.mark.parametrize(("typed", "wanted"), TYPED[::2] + repeated(TYPED[1::2]))
def test_bash_completes_at_a_terminal(scripts, folder, typed, wanted):
    terminal([program("bash"), "--norc", "--noprofile", "-i"], f"source {scripts / 'bash'}", typed, wanted, folder)


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "wanted"), TYPED[1:6:4] + repeated(TYPED[6:]))
def test_zsh_completes_at_a_terminal(scripts, folder, typed, wanted):
    shutil.copy(scripts / "zsh", scripts / "_carrel")
    setup = f"fpath=({scripts} $fpath); autoload -U compinit; compinit -D -u"
    terminal([program("zsh"), "-f", "-i"], setup, typed, wanted, folder)


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "wanted"), TYPED[3::4] + repeated(TYPED[:2] + TYPED[4:5] + TYPED[6:7]))
def test_fish_completes(scripts, folder, typed, wanted):
    line = typed.rstrip("\t")
    script = f'source {scripts / "fish"}; complete -C "{line}"'
    done = subprocess.run(
        [program("fish"), "--no-config", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env=environment(folder),
    )
    assert wanted.split()[-1].rpartition("--")[2] in done.stdout, (done.stdout, done.stderr)


def test_a_file_is_a_server_too(here):
    assert candidates(f"carrel call {BOOKS} gr").words == ["greet"]
