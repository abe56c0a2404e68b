"""State of a client's connection, which can be awaited, iterated over, and observed by callbacks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Literal, TypeAlias

import msgspec

from carrel.errors import MCPError, TransportError
from carrel.log import Log

__all__ = ["ClientState", "ConnectionStatus", "StateChange"]

log = Log("carrel.client")

#: "new": not opened yet. "disconnected": the connection is lost, and the next request opens another one.
ConnectionStatus: TypeAlias = Literal["new", "connecting", "connected", "disconnected", "reconnecting", "closed"]

#: Maximum number of queued changes of an iterator. If there are more, the oldest is dropped.
MAX_WAITING = 1000


class StateChange(msgspec.Struct, frozen=True):
    """Status of a connection, with the reason if it was lost or could not be opened."""

    status: ConnectionStatus
    reason: MCPError | None = None


class ClientState:
    """Observable state of a client's connection.

    if client.state.status == "connected": ...
    await client.state.wait_for("connected")
    async for change in client.state.changes(): print(change.status, change.reason)
    stop = client.state.observe(lambda change: print(change.status))
    """

    def __init__(self) -> None:
        self._current = StateChange("new")
        self._observers: list[Callable[[StateChange], None]] = []

    def __repr__(self) -> str:
        return f"<ClientState {self.status}>"

    @property
    def status(self) -> ConnectionStatus:
        """The current status."""
        return self._current.status

    @property
    def reason(self) -> MCPError | None:
        """Why the connection was lost or could not be opened; None while it is open."""
        return self._current.reason

    @property
    def current(self) -> StateChange:
        """The current status and its reason."""
        return self._current

    def observe(self, observer: Callable[[StateChange], None]) -> Callable[[], None]:
        """Call ``observer`` after each change, in the client's event loop; return a function that removes it."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    async def wait_for(self, *statuses: ConnectionStatus) -> StateChange:
        """Wait until the status is one of ``statuses``, and return the state.

        Raises:
            TransportError: the client is closed, so the status can no longer be reached.
        """
        async for change in self.changes():
            if change.status in statuses:
                return change
        raise TransportError("the client is closed", delivered=False)

    async def changes(self) -> AsyncIterator[StateChange]:
        """Iterate over the state: the current one, and each change until the client is closed."""
        waiting: deque[StateChange] = deque((self._current,), MAX_WAITING)
        news = asyncio.Event()

        def take(change: StateChange) -> None:
            waiting.append(change)
            news.set()

        stop = self.observe(take)
        try:
            while True:
                while waiting:
                    change = waiting.popleft()
                    yield change
                    if change.status == "closed" and not waiting:
                        return
                news.clear()
                await news.wait()
        finally:
            stop()

    def set(self, status: ConnectionStatus, reason: MCPError | None = None) -> None:
        """Record a change, and notify the observers. Called by the session."""
        if status == self._current.status and reason is self._current.reason:
            return
        change = self._current = StateChange(status, reason)
        for observer in list(self._observers):
            try:
                observer(change)
            except Exception:
                log.exception("an observer of the client's state failed")
