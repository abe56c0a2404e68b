"""Flow control and queue of pipelined requests of one HTTP connection, for uvicorn's httptools protocol.

They do the same as uvicorn's own. There may be thousands of idle connections, and an empty deque takes 760 bytes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

__all__ = ["Flow", "Pipeline", "unacknowledged"]


def unacknowledged(transport: asyncio.Transport) -> int:
    """Return how many bytes the kernel's socket buffer holds unsent or unacknowledged; 0 if unknown.

    The kernel accepts more only after much of its buffer has drained: with a slow client, that can take minutes.
    """
    try:
        import fcntl
        import termios

        sock = transport.get_extra_info("socket")
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (ImportError, AttributeError, OSError):
        return 0


class Flow:
    """Flow control of one connection, in both directions."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._writable: asyncio.Event | None = None
        self.read_paused = False
        self.write_paused = False

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self.write_paused:
            if self._writable is None:
                self._writable = asyncio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Read no more from the connection."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the connection again."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Let ``drain`` wait: the client reads too slowly."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """End the wait of ``drain``."""
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None


class Pipeline(list[Any]):
    """Queue of a few requests, with the methods of a deque that uvicorn uses: the newest is the first."""

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        """Add the newest."""
        self.insert(0, item)

    def popleft(self) -> Any:
        """Remove the newest, and return it."""
        return self.pop(0)
