"""The ``carrel`` command as a child process: run to its end, or serving over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import forked_command, forking

PATIENCE = 120.0
COMMAND = [sys.executable, "-m", "carrel"]
PROGRAM = str(Path(__file__).with_name("carrel_command.py"))
#: The same for ``carrel run`` and ``carrel dev``.
RUN_PROGRAM = str(Path(__file__).with_name("carrel_run_command.py"))
#: File of a server that commands ask.
BOOKS = str(Path(__file__).parent / "servers/books.py")


def carrel(
    *arguments: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    text: bool = False,
) -> subprocess.CompletedProcess[Any]:
    """Run a command without a terminal, and return what it has printed and its exit code.

    It runs in a fork of a process that has imported Carrel, if a fork does the same.
    """
    environment = os.environ if env is None else env
    if forked_command.forkable(list(arguments), environment):
        done = forked_command.run(arguments, cwd, environment, PATIENCE)
    else:
        done = subprocess.run(
            command(*map(os.fspath, arguments), env=environment),
            capture_output=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=cwd,
            env=environment,
        )
    if text:
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def command(*arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Return a command line of ``carrel`` for a process that goes on, in a fork if a fork does the same."""
    environment = os.environ if env is None else env
    if arguments[:1] in (("run",), ("dev",)):
        if forked_command.starts_alike(environment):
            return forking.forked(sys.executable, RUN_PROGRAM, *arguments, alone=True)
    elif forked_command.forkable(list(arguments), environment):
        return forking.forked(sys.executable, PROGRAM, *arguments)
    return [*COMMAND, *arguments]


class Errors:
    """Standard error of a process, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.text = ""

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read lines until one of them matches, and return the match."""
        assert self._process.stderr is not None
        while True:
            line = self._process.stderr.readline()
            self.text += line
            found = re.search(pattern, line)
            if found is not None:
                return found
            assert line, f"{pattern!r} is not in: {self.text}"


@contextmanager
def listening(*arguments: str) -> Iterator[str]:
    """Run a command that tells an address of this machine in its first line, and give that address."""
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            errors = Errors(process)
            found = errors.wait_for(r"(?:at|is) (http://127\.0\.0\.1:\d+[^\s;]*)")
            yield found[1]
        finally:
            watchdog.cancel()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)


@contextmanager
def serving(
    *arguments: str,
    http: Sequence[str] = ("--http", "0"),
    cwd: str | None = None,
    patience: float = PATIENCE,
    **env: str,
) -> Iterator[tuple[str, Errors]]:
    """Run ``carrel … --http 0`` and give its URL, and its standard error; after ``patience``, it is killed."""
    environment = {**os.environ, "NO_COLOR": "1", **env}
    with subprocess.Popen(
        command(*arguments, *http, env=environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=cwd,
    ) as process:
        watchdog = threading.Timer(patience, process.kill)
        watchdog.start()
        try:
            errors = Errors(process)
            yield errors.wait_for(r"https?://[^\s/]+/\S+")[0], errors
        finally:
            watchdog.cancel()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
