"""Runs Python programs in forks of a process that has imported what they import, which takes longer than most of them.

python forking.py --serve AT_ONCE SOCKET                          the process that imports and forks
python -S -E forking.py SOCKET (PROGRAM | -m MODULE) ARGUMENT…    stands for a program: a fork runs it
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import sys

#: How many forks run at the same time, if nothing else is said.
MANY = 10_000
#: Longest command, with its environment, that comes with the standard streams; the rest of a longer one follows.
PIECE = 1 << 16
#: Variable with the socket of the process for programs of this interpreter, for processes that tests start. If the
#: process runs one program only, the name of the program is appended.
SOCKET = "SOCKET_OF_FORKED_PROGRAMS"
#: Signals that the program gets.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def forked(python: str, *arguments: str, at_once: int = MANY, alone: bool = False) -> list[str]:
    """Return a command that does what ``python ARGUMENT…`` does, without the time for its imports.

    A signal reaches the program; if the process of the command is killed, so is the program. A program that runs alone
    does not have the modules that other programs import.
    """
    path = server(python, at_once, arguments[0] if alone else "")
    import_program(path, *arguments[: 2 if arguments[0] == "-m" else 1])
    return [sys.executable, "-S", "-E", __file__, path, *arguments]


@functools.cache
def server(python: str, at_once: int, program: str = "") -> str:
    """Start the process that imports and forks, for one program or for several, and return its socket.

    A process before this one may have started it.
    """
    shared = python == sys.executable and at_once == MANY
    variable = SOCKET + os.path.basename(program)
    if shared and variable in os.environ:
        return os.environ[variable]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
    command = [python, "-P", __file__, "--serve", str(at_once)]
    path = start(command, env=environment if python == sys.executable else None)
    if shared:
        os.environ[variable] = path
    return path


def start(command: list[str], env: dict[str, str] | None = None, cwd: os.PathLike[str] | None = None) -> str:
    """Start a process that forks, with the path of its socket as last argument, and return the path.

    The process ends with this one, even if this one is killed: ``wait_for`` notices the end of standard input.
    """
    import atexit
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp()
    path = f"{folder}/socket"
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, path], stdin=pipe, stdout=pipe, env=env, cwd=cwd)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.wait)
    atexit.register(process.kill)
    assert process.stdout is not None
    with process.stdout:  # tests count open descriptors
        assert process.stdout.readline() == b"listening\n"
    return path


@functools.cache
def import_program(path: str, *program: str) -> None:
    """Wait until the process has imported what a program imports: no client has to wait for it."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        link.sendall(json.dumps([program, None, None]).encode() + b"\n")
        link.recv(1)


def wait_for(*sources: socket.socket | int) -> list[socket.socket | int]:
    """Return the sources that can be read, or end this process if the process that started it has ended."""
    import select

    readable = select.select([*sources, sys.__stdin__], [], [])[0]
    if sys.__stdin__ in readable:
        os._exit(0)
    return readable


def hand_over(path: str, arguments: list[str]) -> int:
    """Have a fork work with the standard streams of this process, and return its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until they can be passed on
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        task = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode() + b"\n"
        link.sendall(task[socket.send_fds(link, [task[:PIECE]], [0, 1, 2]) :])
        with link.makefile("r") as replies:
            fork = int(replies.readline())

            def pass_on(number: int, _: object) -> None:
                try:
                    os.kill(fork, number)
                except ProcessLookupError:  # it has just ended
                    pass

            for each in SIGNALS:
                signal.signal(each, pass_on)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            return int(replies.readline() or 1)


def serve(path: str, at_once: int) -> None:
    """Fork for every connection. No more than ``at_once`` forks run at the same time."""
    import gc

    running = 0
    imported: set[str] = set()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("listening", flush=True)
        while True:
            wait_for(listener)
            link = listener.accept()[0]
            data, streams, _, _ = socket.recv_fds(link, PIECE, 3)
            while not data.endswith(b"\n") and (more := link.recv(PIECE)):
                data += more
            if not data.endswith(b"\n"):  # the process of the command was killed
                link.close()
                for stream in streams:
                    os.close(stream)
                continue
            while running and os.waitpid(-1, 0 if running == at_once else os.WNOHANG)[0]:
                running -= 1
            arguments, folder, environment = json.loads(data)
            program = arguments[1] if arguments[0] == "-m" else arguments[0]
            if program not in imported:
                imported.add(program)
                import_for(arguments)
                gc.collect()
                gc.freeze()
            if not streams:  # that was all
                link.close()
                continue
            if os.fork() == 0:
                listener.close()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                os.closerange(min(streams), max(streams) + 1)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                act(link, arguments)
            running += 1
            link.close()
            for stream in streams:
                os.close(stream)


def import_for(arguments: list[str]) -> None:
    """Import what a program imports, or the package that is run. The fork complains if something is missing."""
    import ast
    from contextlib import suppress

    if arguments[0] == "-m":
        text = f"import {arguments[1]}"
    else:
        with open(arguments[0], encoding="utf-8") as file:
            text = file.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            with suppress(ImportError):
                exec(compile(ast.Module([node], []), arguments[0], "exec"), {})


def act(link: socket.socket, arguments: list[str]) -> None:
    """Run the program, send the exit code, and end."""
    import runpy
    import threading
    import traceback

    code = 0
    try:
        link.send(b"%d\n" % os.getpid())
        threading.Thread(target=end_with, args=[link], daemon=True).start()
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, os.path.dirname(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        link.send(b"%d\n" % (code & 255))
        os._exit(code & 255)


def end_with(link: socket.socket) -> None:
    """Kill this process if the process that stands for it ends first."""
    link.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[3], int(sys.argv[2]))
    sys.exit(hand_over(sys.argv[1], sys.argv[2:]))
