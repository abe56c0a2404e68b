"""Process that holds a store in memory for other processes, and receives their sockets from its parent."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from carrel.state.memory import MemoryTables
from carrel.state.remote.store import ReplicaConnection

__all__ = ["give", "hold"]


def give(control: socket.socket, connection: socket.socket) -> None:
    """Pass the socket of a replica to the process that holds the store.

    Raises:
        OSError: that process has ended.
    """
    socket.send_fds(control, [b"\0"], [connection.fileno()])


def hold(control: socket.socket, beat: float) -> None:
    """Hold a store for the replicas whose sockets arrive on ``control``, until its other end is closed.

    Each ``beat`` seconds, it sends a message that says that it runs.
    """
    asyncio.run(_hold(control, beat))


async def _hold(control: socket.socket, beat: float) -> None:
    tables, over = MemoryTables(), asyncio.Event()
    accepting: set[asyncio.Task[ReplicaConnection]] = set()
    loop = asyncio.get_running_loop()

    def receive() -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 64, 64)
        except BlockingIOError:
            return
        except ConnectionResetError:  # the other end was closed before it read the last messages
            data, descriptors = b"", []
        for descriptor in descriptors:
            accept = ReplicaConnection.accept(tables, socket.socket(fileno=descriptor))
            task = loop.create_task(accept)
            accepting.add(task)
            task.add_done_callback(accepting.discard)
        if not data:
            loop.remove_reader(control)
            over.set()

    def tell() -> None:
        with contextlib.suppress(OSError):  # the parent is stopped, and the buffer is full; or it has ended
            control.send(b".")
        loop.call_later(beat, tell)

    control.setblocking(False)
    loop.add_reader(control, receive)
    tell()
    await over.wait()
