"""Keeps processes and sockets out of the tests of ``make quick``: a test that starts or connects one fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["in_memory"]

#: Audit events of processes and sockets. Pairs of connected sockets, which event loops use, cause none of them.
FORBIDDEN = frozenset(
    {
        *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "pty.spawn"),
        *("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"),
    }
)

#: The forbidden events of the running test. None if all events are allowed.
_seen: list[str] | None = None
_installed = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in FORBIDDEN and _seen is not None:
        _seen.append(f"{event} {arguments[-1]!r}"[:200])
        raise AssertionError(f"make quick has no processes and no sockets: mark this test as slow ({_seen[-1]})")


@contextmanager
def in_memory() -> Iterator[None]:
    """Let code that starts a process, or connects or binds a socket, raise AssertionError.

    It is raised again at the end, as the code under test may have caught it.
    """
    global _seen, _installed
    if not _installed:  # an audit hook stays until the process ends
        sys.addaudithook(watch)
        _installed = True
    outer = _seen
    seen: list[str] = []
    _seen = seen
    try:
        yield
    finally:
        _seen = outer
    assert not seen, f"make quick has no processes and no sockets: mark this test as slow ({seen[0]})"
