"""Runs of the ``carrel`` command in forks of one process, which has imported what commands use.

Importing takes most of the time of a short command. A fork has the arguments, standard streams, working directory and
environment of the command.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import forking

__all__ = ["command", "run"]

#: Beginnings of the names of variables that the interpreter reads when it starts, and a fork does not.
READ_AT_START = ("PYTHON", "LC_", "LANG")
PROGRAM = str(Path(__file__).with_name("carrel_command.py"))


def forkable(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a fork does what a new process does: not with programs of others, nor with another interpreter."""
    if list(arguments[:1]) in (["run"], ["dev"]):
        return False
    names = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_START)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def command(*arguments: str) -> list[str]:
    """Return the command line of a process that stands for a fork."""
    return forking.forked(sys.executable, PROGRAM, *arguments)


def run(
    arguments: Sequence[str], cwd: str | os.PathLike[str] | None, environment: Mapping[str, str], patience: float
) -> subprocess.CompletedProcess[bytes]:
    """Run the command without a terminal, and return what it has printed and its exit code.

    Raises:
        subprocess.TimeoutExpired: the command has not ended after ``patience`` seconds; it is killed.
    """
    words = [PROGRAM, *map(os.fspath, arguments)]
    with (
        socket.socket(socket.AF_UNIX) as link,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        open(os.devnull, "rb") as nothing,
    ):
        link.settimeout(patience)
        streams = [nothing.fileno(), output.fileno(), errors.fileno()]
        link.connect(forking.server(sys.executable, forking.MANY))
        forking.send(link, words, streams, os.fspath(cwd or Path.cwd()), environment)
        with link.makefile("r") as replies:
            replies.readline()
            try:
                code = int(replies.readline() or -signal.SIGKILL)
            except TimeoutError:
                raise subprocess.TimeoutExpired(["carrel", *arguments], patience) from None
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["carrel", *arguments], code, output.read(), errors.read())
