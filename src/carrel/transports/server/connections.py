"""Connection table of an HTTP server: limits on open connections, in total and per address, and timeout checks.

Connections are counted in total and by address group (``address_group``). Over a limit, the connection of the same
group that has been idle longest is closed for the new one; if none is idle, the new one is refused. Connections of
other groups are never closed for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

from carrel.heap import Heap
from carrel.limits import Limits

__all__ = ["Connections", "Member", "more_descriptors", "most_connections"]

#: File descriptors reserved for other uses than connections: an eighth of the process limit, at least this many, but at
#: most half.
RESERVE = 64

#: The longest time between two checks of all connections, in seconds.
INTERVAL = 1.0
#: Connections that are checked in one turn of the event loop.
PER_TURN = 500


class Member(Protocol):
    """Connection interface of the connection table."""

    group: str

    def drop(self) -> None:
        """Close the connection at once."""

    def check(self, now: float) -> None:
        """Close the connection if a timeout has expired."""


class Connections:
    """Table of all open connections of one server."""

    def __init__(self, limits: Limits, maximum: int) -> None:
        self.limits = limits
        self.maximum = min(limits.max_connections, maximum)
        # if descriptors are scarce, the limit per address is reduced in proportion
        share = limits.max_connections_per_address * self.maximum // limits.max_connections
        self.per_group = max(1, min(limits.max_connections_per_address, share))
        self.ending = False
        """Whether the server is shutting down: each connection is closed after its response."""
        self._open: dict[Member, None] = {}
        self._count: dict[str, int] = {}
        self._idle: dict[str, dict[Member, None]] = {}
        self._timer: asyncio.Handle | None = None
        self._unchecked: list[Member] = []
        self._heap = Heap()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, member: Member, *, shared: bool = False) -> bool:
        """Add a new connection, or return False if a limit is reached.

        ``shared``: the group is a proxy with many clients, so the limit per address does not apply.
        """
        group = member.group
        count = self._count.get(group, 0)
        if len(self._open) >= self.maximum or (count >= self.per_group and not shared):
            oldest = next(iter(self._idle.get(group, ())), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.drop()
        self._open[member] = None
        self._count[group] = self._count.get(group, 0) + 1
        self._idle.setdefault(group, {})[member] = None
        return True

    def remove(self, member: Member) -> None:
        """Remove a connection, if it is in the table."""
        if member not in self._open:
            return
        del self._open[member]
        group = member.group
        self._count[group] -= 1
        self._idle[group].pop(member, None)
        if not self._count[group]:
            del self._count[group], self._idle[group]

    def idle(self, member: Member) -> None:
        """Record that a connection waits for its next request."""
        if member in self._open:
            self._idle[member.group][member] = None

    def busy(self, member: Member) -> None:
        """Record that a request has begun on a connection."""
        if member in self._open:
            self._idle[member.group].pop(member, None)

    def watch(self) -> None:
        """Check the timeouts of all connections periodically, until ``stop``."""
        limits = self.limits
        shortest = min(
            *(limits.header_timeout, limits.idle_timeout, limits.keep_alive_timeout, limits.write_timeout),
            INTERVAL * 4,
        )
        self._timer = asyncio.get_running_loop().call_later(shortest / 4, self._check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._unchecked = list(self._open)
        self._check_some()

    def _check_some(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        some, self._unchecked = self._unchecked[:PER_TURN], self._unchecked[PER_TURN:]
        try:
            for member in some:
                if member in self._open:
                    member.check(now)
            if not self._unchecked:
                self._heap.check(now)
        finally:
            if self._unchecked:
                self._timer = loop.call_soon(self._check_some)
            else:
                self.watch()


@contextlib.contextmanager
def more_descriptors(wanted: int) -> Iterator[None]:
    """Raise the file descriptor limit (RLIMIT_NOFILE) to ``wanted``, as far as permitted, within the context."""
    try:
        import resource
    except ImportError:  # Windows
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        yield
        return
    raised = wanted if hard == resource.RLIM_INFINITY else max(soft, min(hard, wanted))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def most_connections(wanted: int) -> int:
    """Return how many connections, at most ``wanted``, the file descriptor limit allows."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reserve = min(max(RESERVE, soft // 8), soft // 2)
    return max(1, min(wanted, soft - reserve))
