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

#: What the running test has done, if there are no such events in it.
_seen: list[str] | None = None
_installed = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in FORBIDDEN and _seen is not None:
        _seen.append(f"{event} {arguments[-1]!r}"[:200])
        raise AssertionError(f"make quick has no processes and no sockets: mark this test as slow ({_seen[-1]})")


@contextmanager
def in_memory() -> Iterator[None]:
    """Let code that starts a process, or connects or binds a socket, raise AssertionError; so do we in the end.

    Code under test may catch the first error.
    """
    global _seen, _installed
    if not _installed:  # an audit hook stays until the process ends
        sys.addaudithook(watch)
        _installed = True
    _seen = seen = []
    try:
        yield
    finally:
        _seen = None
    assert not seen, f"make quick has no processes and no sockets: mark this test as slow ({seen[0]})"
