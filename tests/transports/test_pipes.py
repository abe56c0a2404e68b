"""Size of pipes: enlarged where the system allows it, and left alone everywhere else."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Any

import pytest

from carrel.transports.pipes import LARGE, SIZE, enlarge
from support.stdio_process import call, running, text_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of several sizes")


class Pipe:
    """Stands for the transport of a file."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def get_extra_info(self, name: str) -> Any:
        return self._pipe if name == "pipe" else None


@pytest.fixture(name="ends")
def fixture_ends() -> Any:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@linux
def test_a_pipe_holds_a_large_message(ends):
    enlarge(Pipe(ends[1]))
    os.set_blocking(ends[1], False)
    assert os.write(ends[1], bytes(2 * SIZE)) == SIZE


@linux
def test_a_pipe_that_the_system_does_not_enlarge_stays_as_it_is(ends, monkeypatch):
    import fcntl

    control = fcntl.fcntl

    def refuse(fd: Any, command: int, *arguments: int) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return control(fd, command, *arguments)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    enlarge(Pipe(ends[1]))
    assert control(ends[1], fcntl.F_GETPIPE_SZ) < SIZE


def test_a_socket_and_a_transport_without_a_pipe_are_left_alone():
    left, right = socket.socketpair()
    with left, right:
        enlarge(Pipe(left))
    enlarge(Pipe(None))


@linux
@pytest.mark.parametrize("loop", [(), ("uvloop",)])
def test_the_pipe_of_a_server_grows_with_its_first_large_response(loop):
    import fcntl

    with running(*loop) as child:
        child.open()
        before = fcntl.fcntl(child.stdout, fcntl.F_GETPIPE_SZ)
        assert text_of(child.ask(call(1, "echo", text="x" * LARGE))) == "x" * LARGE
        assert before < fcntl.fcntl(child.stdout, fcntl.F_GETPIPE_SZ) == SIZE
