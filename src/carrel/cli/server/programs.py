"""Programs for ``mcp`` and ``fastmcp`` among the arguments of ``carrel run``.

A program runs before the other modules of the command are imported, which takes longer than to import the program.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from carrel.errors import ConfigError

__all__ = ["compat_program", "parser", "run", "take_generation"]

COMPAT = "--compat"
#: Values of ``--compat``: the major version of ``mcp`` that a program was written for.
GENERATIONS = {"mcp1": 1, "mcp2": 2}


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of ``carrel run``."""
    from carrel.cli.server.run import parser as parser_of_run

    return parser_of_run()


def run(arguments: list[str]) -> int:
    """Run ``carrel run``: a program for ``mcp`` or ``fastmcp`` as it is, or a server that Carrel serves.

    Raises:
        ConfigError: invalid arguments, code that cannot be loaded, a port in use, or a missing package.
    """
    words, generation = take_generation(arguments)
    program = compat_program(words)
    if program is None:
        from carrel.cli.server.run import run as serve

        return serve(words, generation)
    run_compat(program, generation)
    return 0


def take_generation(arguments: list[str]) -> tuple[list[str], int | None]:
    """Return arguments with ``--compat=mcp2`` as ``--compat``, and the generation; None without one.

    Raises:
        ConfigError: there is no such generation.
    """
    given = next((word for word in arguments if word.startswith("--compat=")), None)
    if given is None or "--" in arguments[: arguments.index(given)]:
        return arguments, None
    name = given.partition("=")[2]
    if name not in GENERATIONS:
        raise ConfigError(f"argument --compat: {name!r} is neither {' nor '.join(GENERATIONS)}")
    return ["--compat" if word is given else word for word in arguments], GENERATIONS[name]


def compat_program(arguments: list[str]) -> list[str] | None:
    """Return the arguments after ``--compat``, if they are a program to run unchanged.

    Return None if Carrel itself serves the program's server, as for ``FILE:NAME`` and with ``--http``. Arguments after
    ``--`` are always passed to the program; ``-- COMMAND ARGUMENTS`` is a command that an installed package has.

    Raises:
        ConfigError: the command is not installed beside this Carrel.
    """
    if arguments[:1] != [COMPAT] or len(arguments) < 2:
        return None
    target, *remaining = arguments[1:]
    if target == "--":
        return [runnable(remaining[0]), *remaining[1:]] if remaining else None
    if remaining[:1] == ["--"]:
        return [target, *remaining[1:]]
    if target != "-m" and (not Path(target).exists() or any(word.partition("=")[0] == "--http" for word in remaining)):
        return None
    return [target, *remaining]


def runnable(program: str) -> str:
    """Return the file of a program: of a command of an installed package, or the file or option ``-m`` as given.

    Raises:
        ConfigError: there is no such file, and no such command beside this Carrel.
    """
    if program == "-m" or Path(program).exists():
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


def is_python(script: Path) -> bool:
    """Return whether a script is a Python program: by its first line, or as the launcher of a command on Windows."""
    with script.open("rb") as file:
        first = file.readline(512)
    return script.suffix == ".exe" or (first.startswith(b"#!") and (b"python" in first or b"/bin/sh" in first))


def run_compat(program: list[str], generation: int | None) -> None:
    """Run a program written for ``mcp`` or ``fastmcp`` in the environment described by its metadata.

    Raises:
        ConfigError: a package is missing, or the program ended without running a server or a client.
    """
    if program[0] != "-m" and Path(program[0]).suffix == ".py":
        from carrel.cli.server.script import enter

        flag = COMPAT if generation is None else f"{COMPAT}=mcp{generation}"
        enter(program[0], ["run", flag, *program])
    try:
        from carrel.compat import redirect_imports
        from carrel.compat.generation import find_generation

        redirect_imports(generation or find_generation(program))
    except ImportError as error:
        raise ConfigError(f"{COMPAT} runs programs for mcp and fastmcp; Carrel can run it, but {error}") from None
    from carrel.compat.__main__ import main

    main(program)
