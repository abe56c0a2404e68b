"""Store in memory that processes which do not know each other share over a Unix socket.

A test holds a ``StoreServer``; a replica in another process joins it with ``state_at``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

from carrel.state.memory import MemoryTables
from carrel.state.remote.state import RemoteState
from carrel.state.remote.store import ReplicaConnection

__all__ = ["StoreServer", "state_at"]


class StoreServer:
    """Serves a store on a Unix socket, within ``async with``."""

    def __init__(self, path: Path, store: MemoryTables, *, lease: float) -> None:
        self.store = store
        self._path = path
        self._lease = lease
        self._connections: list[ReplicaConnection] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._accepting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> StoreServer:
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._accepting is not None
        self._accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._accepting
        self._listener.close()
        for connection in self._connections:
            connection.close()
            await connection.closed.wait()

    async def _accept(self) -> None:
        while True:
            connected, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            self._connections.append(await ReplicaConnection.accept(self.store, connected, lease=self._lease))


def state_at(path: str | Path) -> RemoteState:
    """Return the state of a replica that joins the store at a path."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return RemoteState(connection)
