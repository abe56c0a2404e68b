"""The ``carrel`` command, and processes of sources, in forks of one process that has imported what they use.

Importing takes most of the time of a short process. A fork has the arguments, standard streams, working directory and
environment of the process that it replaces.

python -m support.forked_command SOCKET    the process that imports and forks
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.forking import forked, start, wait_for

__all__ = ["SUBPROCESS", "Fork", "fork_workers", "launch", "launch_script", "run", "start_servers"]

#: Beginnings of the names of variables that the interpreter reads when it starts, and a fork does not.
READ_AT_START = ("PYTHON", "LC_", "LANG")
#: Packages that the process imports with all of their modules, and modules that those import when they are used.
PACKAGES = ("carrel.cli", "carrel.sources")
DATABASES = (
    *("asyncpg", "duckdb", "duckdb_engine", "greenlet", "pymysql", "sqlalchemy.ext.asyncio", "sqlglot"),
    *(f"sqlalchemy.dialects.{name}" for name in ("mysql.pymysql", "postgresql.asyncpg", "sqlite")),
)
MODULES = (
    *DATABASES,
    *("aiohttp", "carrel.client", "carrel.host", "carrel.security.client", "carrel.server", "uvicorn"),
    *("html_to_markdown", "lxml.etree", "mammoth", "PIL.Image", "pptx", "pypdfium2", "python_calamine", "striprtf"),
)
#: Program that stands for the command in a process that another command starts.
PROGRAM = str(Path(__file__).with_name("carrel_command.py"))
#: Variable with the path of the socket, for processes that tests start.
SOCKET = "SOCKET_OF_FORKED_COMMANDS"
#: How long the process may take to start, in seconds.
PATIENCE = 120.0


def forkable(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a fork does what a new process does: not with programs of others, nor with another interpreter."""
    return arguments[:1] not in (["run"], ["dev"]) and starts_alike(environment)


def starts_alike(environment: Mapping[str, str]) -> bool:
    """Return whether Python starts in an environment as it has started here."""
    names = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_START)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(
    arguments: Sequence[str], cwd: str | os.PathLike[str] | None, environment: Mapping[str, str], patience: float
) -> subprocess.CompletedProcess[bytes]:
    """Run the command without a terminal, and return what it has printed and its exit code.

    Raises:
        subprocess.TimeoutExpired: the command has not ended after ``patience`` seconds; it is killed.
    """
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        open(os.devnull, "rb") as nothing,
    ):
        process = launch(arguments, (nothing.fileno(), output.fileno(), errors.fileno()), cwd, environment)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["carrel", *arguments], code, output.read(), errors.read())


def launch(
    arguments: Sequence[str],
    streams: Sequence[int],
    cwd: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Fork:
    """Start the command with these standard streams."""
    argv = ["carrel", *map(os.fspath, arguments)]
    return Fork("carrel.cli", [], streams, argv, cwd, environment, forked(sys.executable, PROGRAM))


def launch_script(
    path: str | os.PathLike[str], arguments: Sequence[str], streams: Sequence[int], *, shows_warnings: bool = False
) -> Fork:
    """Start a Python file, which uses Carrel, with these arguments and standard streams."""
    name = os.fspath(path)
    task = [name, shows_warnings]
    carrel = forked(sys.executable, PROGRAM)
    return Fork("support.forked_script", task, streams, [name, *arguments], None, os.environ, carrel)


class Fork:
    """A process in a fork, which calls ``main`` of a module. Its methods are those of ``subprocess.Popen``."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[object],
        streams: Sequence[int],
        argv: Sequence[str],
        cwd: str | os.PathLike[str] | None,
        environment: Mapping[str, str],
        carrel: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._link = socket.socket(socket.AF_UNIX)
        weakref.finalize(self, self._link.close)  # not earlier, as several threads may wait
        self._link.connect(server())
        socket.send_fds(self._link, [b"streams"], streams)
        task = {
            "module": module,
            "arguments": arguments,
            "argv": argv,
            "cwd": os.fspath(cwd or Path.cwd()),
            "environment": dict(environment),
            "carrel": carrel,
        }
        self._link.sendall(json.dumps(task).encode() + b"\n")
        self.pid = int.from_bytes(self._link.recv(4, socket.MSG_WAITALL), "big")
        assert self.pid, "the fork has ended before it began"

    def poll(self) -> int | None:
        """Return the exit code, or None if the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises:
            subprocess.TimeoutExpired: the process has not ended in time.
        """
        if self.returncode is None and not select.select([self._link], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("fork", timeout or 0)
        with self._lock:
            if self.returncode is None:
                code = self._link.recv(4, socket.MSG_WAITALL)
                self.returncode = int.from_bytes(code, "big", signed=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedWorker(Fork):
    """Process of a source, with pipes. Arguments are those that ``carrel.sources.process`` gives to Popen."""

    def __init__(self, command: Sequence[str], *, cwd: str | None, env: Mapping[str, str], **_: Any) -> None:
        _, module, arguments = json.loads(command[-1])
        child_in, to_child = os.pipe()
        from_child, child_out = os.pipe()
        with open(os.devnull, "wb") as nothing, open(child_in, "rb"), open(child_out, "wb"):
            super().__init__(module, arguments, (child_in, child_out, nothing.fileno()), command[:1], cwd, env)
        self.stdin = os.fdopen(to_child, "wb")
        self.stdout = os.fdopen(from_child, "rb")


#: Stands in for the module ``subprocess`` in ``carrel.sources.process``.
SUBPROCESS = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)


def fork_workers() -> None:
    """Let sources in this process, which tests have started, fork their processes."""
    if SOCKET in os.environ:
        import_module("carrel.sources.process").subprocess = SUBPROCESS


@functools.cache
def server() -> str:
    """Start the process, unless a process before this one has, and return the path of its socket."""
    if SOCKET not in os.environ:
        program = [sys.executable, "-m", "support.forked_command"]
        os.environ[SOCKET] = start(program, cwd=Path(__file__).parent.parent)
    return os.environ[SOCKET]


def start_servers() -> None:
    """Start the processes that the first fork would start, and open descriptors for."""
    server()
    forked(sys.executable, PROGRAM)


def serve(path: str) -> Any:
    """Fork for every connection, and send exit codes. Return in the forks: their tasks."""
    links: dict[int, socket.socket] = {}
    ended, end_of_fork = os.pipe()
    os.set_blocking(end_of_fork, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(end_of_fork, warn_on_full_buffer=False)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("listening", flush=True)
        while True:
            if ended in wait_for(listener, ended):
                os.read(ended, 4096)
                send_exit_codes(links)
                continue
            link = listener.accept()[0]
            _, streams, _, _ = socket.recv_fds(link, len(b"streams"), 3)
            with link.makefile("r") as lines:
                task = json.loads(lines.readline())
            process = os.fork()
            if process == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (listener, link, *links.values()):
                    each.close()
                for descriptor in (ended, end_of_fork):
                    os.close(descriptor)
                become(task, streams)
                return task
            links[process] = link
            for stream in streams:
                os.close(stream)
            link.sendall(process.to_bytes(4, "big"))


def send_exit_codes(links: dict[int, socket.socket]) -> None:
    """Send the exit codes of forks that have ended. Their processor time counts as the time of this process then."""
    while links:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with links.pop(process) as link, contextlib.suppress(BrokenPipeError):
            link.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def become(task: Any, streams: Sequence[int]) -> None:
    """Make this process what the task says."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(task["environment"])
    os.chdir(task["cwd"])
    sys.path[0] = task["cwd"]
    sys.argv = task["argv"]
    if task["carrel"]:
        # Commands that start a server have it forked as well, and sources their processes.
        import_module("carrel.cli.target").CARREL = tuple(task["carrel"])
        fork_workers()


def end(code: int) -> None:
    """End this process at once: freeing a thousand modules takes longer than most commands."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def import_everything() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_everything()
    task = serve(sys.argv[1])
    # From here on, this is the process of the task.
    try:
        code = import_module(task["module"]).main(*task["arguments"])
    except SystemExit as ended:  # of argparse
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    end(code)
