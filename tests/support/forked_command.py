"""Runs of the ``carrel`` command in forks of one process, which has imported what commands use.

Importing takes most of the time of a short command. A fork has the arguments, standard streams, working directory and
environment of the command.

python -m support.forked_command SOCKET    the process that imports and forks
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

__all__ = ["run"]

#: Beginnings of the names of variables that the interpreter reads when it starts, and a fork does not.
READ_AT_START = ("PYTHON", "LC_", "LANG")
#: Packages that the process imports with all of their modules, and modules that those import when they are used.
PACKAGES = ("carrel.cli", "carrel.sources")
MODULES = ("aiohttp", "carrel.client", "carrel.host", "carrel.security.client", "carrel.server", "uvicorn")
#: How long the process may take to start, in seconds.
PATIENCE = 120.0


def forkable(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a fork does what a new process does: not with programs of others, nor with another interpreter."""
    if arguments[:1] in (["run"], ["dev"]):
        return False
    names = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_START)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(
    arguments: Sequence[str], cwd: str | os.PathLike[str] | None, environment: Mapping[str, str], patience: float
) -> subprocess.CompletedProcess[bytes]:
    """Run the command without a terminal, and return what it has printed and its exit code.

    Raises:
        subprocess.TimeoutExpired: the command has not ended after ``patience`` seconds; it is killed.
    """
    task = {
        "arguments": [os.fspath(each) for each in arguments],
        "cwd": os.fspath(cwd or Path.cwd()),
        "environment": dict(environment),
    }
    with (
        socket.socket(socket.AF_UNIX) as link,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        open(os.devnull, "rb") as nothing,
    ):
        link.settimeout(patience)
        link.connect(server())
        socket.send_fds(link, [b"streams"], [nothing.fileno(), output.fileno(), errors.fileno()])
        link.sendall(json.dumps(task).encode() + b"\n")
        with link.makefile("r") as replies:
            process = int(replies.readline())
            try:
                code = int(replies.readline())
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["carrel", *arguments], patience) from None
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["carrel", *arguments], code, output.read(), errors.read())


@functools.cache
def server() -> str:
    """Start the process, which lives as long as this one, and return the path of its socket."""
    folder = tempfile.mkdtemp()
    path = str(Path(folder) / "socket")
    program = [sys.executable, "-m", "support.forked_command", path]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stdin=subprocess.PIPE, cwd=Path(__file__).parent.parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.wait)
    atexit.register(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    return path


def serve(path: str) -> None:
    """Fork for every connection. Return in the forks, which have become the process that a client wants."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody has to wait for the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("listening", flush=True)
        while True:
            link, _ = listener.accept()
            with link:
                if os.fork() == 0:
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    become_command(link)
                    return


def become_command(link: socket.socket) -> None:
    """Return in a fork that is as the client says. This process waits for it, and says how it has ended."""
    _, streams, _, _ = socket.recv_fds(link, len(b"streams"), 3)
    with link.makefile("r") as lines:
        task = json.loads(lines.readline())
    process = os.fork()
    if process:
        link.sendall(b"%d\n" % process)
        _, status = os.waitpid(process, 0)
        link.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(task["environment"])
    os.chdir(task["cwd"])
    sys.path[0] = task["cwd"]
    sys.argv = ["carrel", *task["arguments"]]


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
    serve(sys.argv[1])
    # From here on, this is the command.
    end(import_module("carrel.cli").main())
