"""Set up a child process: its pipes, and memory and time limits if the system supports them."""

from __future__ import annotations

import os
import sys
from typing import IO

__all__ = ["RECYCLED", "limit_memory", "limit_time", "memory_used", "open_pipes", "wait_for"]

#: Memory (bytes) after which a process ends, because libraries do not give it back.
RECYCLED = 384 * 1024 * 1024


def open_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the files that messages come from and answers go to."""
    source = os.fdopen(0, "rb")
    target = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # output that a library prints is not a response
    return source, target


def wait_for(descriptor: int, seconds: float) -> bool:
    """Wait for a message. Return False if none arrives within ``seconds``."""
    if sys.platform == "win32":
        return True
    import select

    return bool(select.select([descriptor], [], [], seconds)[0])


def limit_memory(memory: int) -> None:
    """Limit memory and files, so that work that exceeds them ends this process only."""
    if sys.platform == "win32":
        return
    import resource

    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0))
    for what, limit in limits:
        try:
            resource.setrlimit(what, (limit, limit))
        except (OSError, ValueError):  # macOS has no limit of address space
            pass


def limit_time(seconds: int) -> None:
    """Limit the CPU time of the next message, even if the server that would kill this process is gone."""
    if sys.platform == "win32":
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = int(usage.ru_utime + usage.ru_stime) + seconds + 2
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def memory_used() -> int:
    """Return the memory that this process has, in bytes; 0 where the system does not show it (all but Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
