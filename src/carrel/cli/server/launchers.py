"""Commands that start a program: ``uvx``, ``uv run``, ``python``, ``mcp run``, and commands of installed packages.

A program runs on Carrel in the environment where its own command would run it, so that it finds its packages.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from carrel.errors import ConfigError

__all__ = ["Launch", "read_launch", "runnable"]

#: Options of uv that are followed by a value.
VALUED = frozenset(
    (
        *("-p", "--python", "--with", "--with-editable", "--with-requirements", "--from", "--directory", "--project"),
        *("--env-file", "--extra", "--group", "--index", "--index-url", "--extra-index-url", "--default-index"),
        *("-f", "--find-links", "-w", "-i", "-c", "--constraints", "--cache-dir", "--config-file"),
    )
)
#: Commands that start programs of other languages, or containers.
OTHER_LAUNCHERS = frozenset(
    ("npx", "npm", "node", "bun", "bunx", "deno", "pnpm", "yarn", "docker", "podman", "go", "java")
)
PYTHON = re.compile(r"python[0-9.]*w?|py")
#: Start of a command of an installed package, with the path of its Python. A shell reads long paths in the second line.
INTERPRETER = re.compile(rb"""(?:#!/bin/sh\n'''exec' "?|#!)(/[^\n"]*/python[0-9.]*)\b""")
#: Options of Python before a file or ``-m`` that do not concern a program on Carrel.
IGNORED = frozenset(("-u", "-B", "-E", "-s", "-P", "-O", "-OO"))


class Launch(NamedTuple):
    """How a program starts: in this process, by its arguments, or in another environment, by a command.

    ``target`` is ``FILE[:NAME]`` of a server that ``mcp run`` imports, in place of a program.
    """

    program: list[str] | None = None
    command: list[str] | None = None
    target: str | None = None


def read_launch(words: list[str], option: str) -> Launch:
    """Return how to run the program of a command on Carrel. ``option`` is the spelling of ``--compat``.

    Raises:
        ConfigError: the command does not start a Python program, or the program is not here.
    """
    name = Path(words[0]).name.lower().removesuffix(".exe")
    ours = ["python", "-P", "-m", "carrel", "run", option, "--"]
    if name == "uvx" or (name == "uv" and words[1:3] == ["tool", "run"]):
        return Launch(command=uvx(words[1:] if name == "uvx" else words[3:], ours))
    if name == "uv" and "run" in words:
        from carrel.cli.server.script import own

        end = skip_options(words, words.index("run") + 1)
        if end < len(words):
            return Launch(command=[uv(), *words[1:end], *own(), *ours, *words[end:]])
    if name in ("mcp", "fastmcp") and words[1:2] == ["run"] and len(words) == 3:
        return Launch(target=words[2])
    if name in OTHER_LAUNCHERS:
        raise ConfigError(f"{words[0]} starts no Python program that Carrel can run")
    if PYTHON.fullmatch(name):
        return python(words, ours[1:])
    program = runnable(words[0])
    interpreter = interpreter_of(Path(program))
    if interpreter is not None:
        return Launch(command=[interpreter, *ours[1:], str(Path(program).absolute()), *words[1:]])
    return Launch([program, *words[1:]])


def uvx(words: list[str], ours: list[str]) -> list[str]:
    """Return the command for arguments of ``uvx``: ``uv run`` in an environment with the package and Carrel."""
    from carrel.cli.server.script import own

    end = skip_options(words, 0)
    if end == len(words):
        raise ConfigError("uvx names no package")
    options, (given, *arguments) = words[:end], words[end:]
    package, _, version = given.partition("@")
    source = package if version in ("", "latest") else f"{package}=={version}"
    changed = [re.sub(r"^--from\b", "--with", word) for word in options]
    packages = [] if changed != options else ["--with", source]
    start = [uv(), "run", "--quiet", "--no-project", "--isolated", *changed, *packages, *own()]
    return [*start, *ours, re.sub(r"\[.*\]|[=<>~!].*", "", package), *arguments]


def python(words: list[str], ours: list[str]) -> Launch:
    """Return how to run the program of a ``python`` command, in this process if it is the Python of this one."""
    start = 1
    while start < len(words) and words[start] in IGNORED:
        start += 1
    program = words[start:]
    if not program or (program[0].startswith("-") and program[0] != "-m") or program == ["-m"]:
        raise ConfigError(f"{' '.join(words[:3])} names neither a file nor a module with -m")
    found = shutil.which(words[0])
    if found is None:
        raise ConfigError(f"there is no {words[0]}")
    if Path(found).absolute().parent == Path(sys.executable).parent:
        return Launch(program)
    return Launch(command=[found, *ours, *program])


def skip_options(words: list[str], at: int) -> int:
    """Return the position after the options of uv that start at a position."""
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "--module"):
        at += 2 if words[at] in VALUED else 1
    return min(at, len(words))


def uv() -> str:
    """Return the path of uv.

    Raises:
        ConfigError: uv is not installed.
    """
    from carrel.cli.server.script import find_uv

    found = find_uv()
    if found is None:
        raise ConfigError("uv is not installed: https://docs.astral.sh/uv/")
    return found


def runnable(program: str) -> str:
    """Return the file of a program: of a command of an installed package, or the file or option ``-m`` as given.

    Raises:
        ConfigError: there is no such file, and no such command beside this Carrel.
    """
    if program == "-m" or (Path(program).exists() and is_python(Path(program))):
        return program
    scripts = Path(sys.executable).parent
    for name in (program, f"{program}.exe"):
        script = scripts / Path(name).name
        if script.is_file() and is_python(script):
            return str(script)
    raise ConfigError(
        f"{program} is neither a file nor a command of a Python package in {scripts}: install the package beside "
        f"Carrel, as with {sys.executable} -m pip install {Path(program).name}"
    )


def interpreter_of(program: Path) -> str | None:
    """Return the Python of the virtual environment whose command a file is; None for this one and for other files."""
    if not program.is_file():
        return None
    with program.open("rb") as file:
        found = INTERPRETER.match(file.read(1024))
    if found is None:
        return None
    interpreter = Path(os.fsdecode(found[1]))
    environment = interpreter.parents[1]
    if not (environment / "pyvenv.cfg").is_file() or environment.samefile(sys.prefix):
        return None
    return str(interpreter)


def is_python(program: Path) -> bool:
    """Return whether a file is a Python program, by its suffix or first line, or a folder with ``__main__.py``."""
    if program.is_dir():
        return (program / "__main__.py").is_file()
    if program.suffix in (".py", ".pyw", ".pyz", ".exe"):  # .exe is the launcher of a command on Windows
        return True
    with program.open("rb") as file:
        first = file.readline(512)
    return first.startswith(b"#!") and (b"python" in first or b"/bin/sh" in first)
