"""The processes whose forks stand for commands and for workers in tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import forked_command, forking
from support.carrel_process import carrel

pytestmark = pytest.mark.slow

PATIENCE = 120
#: Stands for a process of tests.
STARTER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support import forked_command, forking
forking.server(sys.executable, forking.MANY) if sys.argv[2] == "programs" else forked_command.server()
print("started", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("kind", ["programs", "commands"])
def test_the_process_that_forks_ends_if_its_starter_is_killed(kind: str) -> None:
    command = [sys.executable, "-c", STARTER, str(Path(__file__).parent), kind]
    sockets = {forked_command.SOCKET, forking.SOCKET}
    environment = {name: value for name, value in os.environ.items() if name not in sockets}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        starter.kill()
        # Both have the same standard error: its end is read when both have ended.
        assert starter.communicate(timeout=PATIENCE) == (b"", b"")


def test_a_signal_before_the_fork_is_known_reaches_the_fork(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as fork:
        server.bind(path)
        server.listen()
        server.settimeout(PATIENCE)
        with subprocess.Popen([sys.executable, "-S", "-E", forking.__file__, path, "program.py"]) as command:
            link, _ = server.accept()
            with link:
                command.send_signal(signal.SIGTERM)
                link.send(b"%d\n" % fork.pid)
                assert fork.wait(PATIENCE) == -signal.SIGTERM
                link.send(b"7\n")
                assert command.wait(PATIENCE) == 7


def test_a_command_that_is_killed_before_it_says_what_to_run_leaves_the_others_alone(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('hello')\n")
    command = forking.forked(sys.executable, str(program))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(forking.server(sys.executable, forking.MANY))
    assert subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout == b"hello\n"


def test_the_command_is_returned_when_the_process_has_imported_what_the_program_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "socket")
    monkeypatch.setattr(forking, "server", lambda *_: path)
    with socket.socket(socket.AF_UNIX) as server, ThreadPoolExecutor(1) as pool:
        server.bind(path)
        server.listen()
        server.settimeout(PATIENCE)
        command = pool.submit(forking.forked, sys.executable, "program.py", "argument")
        link, _ = server.accept()
        with link, link.makefile() as tasks:
            assert json.loads(tasks.readline())[0] == ["program.py"]
            assert not command.done()
        assert command.result(PATIENCE)[-3:] == [path, "program.py", "argument"]


def test_a_worker_may_end_by_itself_just_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError

    with open(os.devnull, "r+b") as nothing:
        streams = [nothing.fileno()] * 3
        worker = forked_command.Fork("carrel.cli", [], streams, ["carrel", "--version"], None, os.environ)
        assert worker.wait(PATIENCE) == 0
        monkeypatch.setattr(worker, "poll", lambda: None)
        monkeypatch.setattr(os, "kill", gone)
        worker.kill()
    assert carrel("--version").returncode == 0
