"""State of the connection of a synchronous client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from carrel.client import state as asynchronous
from carrel.client.state import ConnectionStatus, StateChange
from carrel.errors import MCPError
from carrel.sync.loop import iterate, waiting

__all__ = ["ClientState"]


class ClientState:
    """Observable state of a client's connection: ``carrel.client.state.ClientState`` without ``await``."""

    def __init__(self, state: asynchronous.ClientState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return repr(self._state)

    @property
    def status(self) -> ConnectionStatus:
        """The current status."""
        return self._state.status

    @property
    def reason(self) -> MCPError | None:
        """Why the connection was lost or could not be opened; None while there is one."""
        return self._state.reason

    @property
    def current(self) -> StateChange:
        """The current status and its reason."""
        return self._state.current

    def observe(self, observer: Callable[[StateChange], None]) -> Callable[[], None]:
        """Call ``observer`` after each change, in the event loop, which it must not block; return what ends that."""
        return self._state.observe(observer)

    wait_for = waiting("_state", asynchronous.ClientState.wait_for)

    def changes(self) -> Iterator[StateChange]:
        """Iterate over the state: the current one, and each change until the client is closed."""
        return iterate(self._state.changes)
