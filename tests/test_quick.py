"""The rule of ``make quick``: no processes and no sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from support.in_memory import in_memory


def start_a_process() -> None:
    subprocess.run([sys.executable, "--version"], check=True)


def connect_a_socket() -> None:
    with socket.socket() as unconnected:
        unconnected.connect(("127.0.0.1", 1))


def bind_a_socket() -> None:
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))


@pytest.mark.parametrize("act", [start_a_process, connect_a_socket, bind_a_socket])
def test_a_test_that_uses_processes_or_sockets_fails_even_if_the_error_is_caught(act: Callable[[], None]) -> None:
    def test() -> None:
        with in_memory(), contextlib.suppress(AssertionError):
            act()

    with pytest.raises(AssertionError, match="mark this test as slow"):
        test()


def test_an_event_loop_is_allowed() -> None:
    with in_memory():
        asyncio.run(asyncio.sleep(0))
