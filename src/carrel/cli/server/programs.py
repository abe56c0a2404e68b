"""Programs for ``mcp`` and ``fastmcp`` among the arguments of ``carrel run``.

A program runs before the other modules of the command are imported, which takes longer than to import the program.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path

from carrel.cli.server.compat_option import COMPAT, flag, redirect, take_generation

__all__ = ["compat_program", "parser", "run"]

#: Objects that a program may allocate before the garbage collector looks for cycles.
MORE_OBJECTS = 50_000


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
    if words[:2] == [COMPAT, "--"] and len(words) > 2:
        from carrel.cli.server.launchers import read_launch

        command = words[3:] if words[2] == "--" and len(words) > 3 else words[2:]  # see carrel.cli.install.rewriting
        launch = read_launch(command, flag(generation))
        if launch.command is not None:
            return replace_process(launch.command)
        program, words = launch.program, [COMPAT, str(launch.target)]
    if program is None:
        from carrel.cli.server.run import run as serve

        return serve(words, generation)
    run_compat(program, generation)
    return 0


def replace_process(command: list[str]) -> int:
    """Run a command in place of this process; return its exit code where that takes a second process."""
    if sys.platform == "win32":  # Windows has no exec that keeps the standard streams and the process id
        import subprocess

        return subprocess.call(command)  # noqa: S603
    return os.execv(command[0], command)  # noqa: S606


def compat_program(arguments: list[str]) -> list[str] | None:
    """Return the arguments after ``--compat``, if they are a file or module to run unchanged.

    Return None if Carrel itself serves the program's server, as for ``FILE:NAME`` and with ``--http``. Arguments after
    ``--`` are always passed to the program.
    """
    if arguments[:1] != [COMPAT] or len(arguments) < 2 or arguments[1:] == ["-m"]:
        return None
    end = 3 if arguments[1] == "-m" else 2
    program, remaining = arguments[1:end], arguments[end:]
    if program[0] != "-m" and not Path(program[0]).exists():
        return None
    if remaining[:1] == ["--"]:
        return [*program, *remaining[1:]]
    before = remaining[: remaining.index("--")] if "--" in remaining else remaining
    return None if any(word.partition("=")[0] == "--http" for word in before) else [*program, *remaining]


def run_compat(program: list[str], generation: int | None) -> None:
    """Run a program written for ``mcp`` or ``fastmcp`` in the environment described by its metadata.

    Raises:
        ConfigError: a package is missing, or the program ended without running a server or a client.
    """
    if program[0] != "-m" and Path(program[0]).suffix == ".py":
        from carrel.cli.server.script import enter

        enter(program[0], ["run", flag(generation), *program])
    # Modules and models are many objects that stay: with the usual 700, a start spends a tenth of its time collecting.
    gc.set_threshold(MORE_OBJECTS)
    redirect(program, generation)
    from carrel.compat.__main__ import run as run_program

    try:
        run_program(program)
    except (AttributeError, ImportError, SyntaxError) as error:
        from carrel.cli.server.load import explain_import

        explain_import(program, error)
        raise
