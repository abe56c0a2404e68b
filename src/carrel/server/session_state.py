"""State of a client's session, for handlers: the session id, and a small store of JSON values that ends with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from carrel.errors import ServerUnavailable
from carrel.limits import NO_ROOM
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.json_values import to_json
from carrel.state.replica import Replica

__all__ = ["SessionState"]

#: Bytes of memory that a value in this process takes besides its key and its JSON.
VALUE_BYTES = 128


class SessionState:
    """State of a session, in revisions with a handshake: ``get``, ``set`` and ``delete`` its values.

    They are in ``replica``, where other replicas see them, or (None) in the memory of this process, where they count as
    kept for the client. ``limit`` returns the most bytes of keys and values in JSON, ``max_session_state_bytes``.
    """

    __slots__ = ("__weakref__", "_client", "_is_open", "_limit", "_replica", "_values", "id")

    def __init__(self, client: ConnectedClient, replica: Replica | None, limit: Callable[[], int]) -> None:
        self.id = client.session_id
        """Id of a session over HTTP, empty on stdio."""
        self._client = client
        self._replica = replica
        self._limit = limit
        self._is_open = True
        self._values: dict[str, bytes] = {}

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a value decoded from JSON, or ``default`` if it is not set.

        Raises:
            ServerUnavailable: the shared store has failed.
        """
        if self._replica is None:
            encoded = self._values.get(key)
        else:
            encoded = await self._replica.ask(self._replica.state.sessions.get_value(self.id, key))
        return default if encoded is None else msgspec.json.decode(encoded)

    async def set(self, key: str, value: Any) -> None:
        """Store a value in place of an earlier one. Does nothing if the session has ended.

        Raises:
            TypeError: the value cannot be encoded as JSON.
            ValueError: the values of the session would be larger than ``max_session_state_bytes``.
            ServerUnavailable: too much is kept for the client, or the shared store has failed.
        """
        encoded, most = to_json(value), self._limit()
        if self._replica is None:
            stored = self._keep(key, encoded, most)
        else:
            stored = await self._replica.ask(self._replica.state.sessions.put_value(self.id, key, encoded, most))
        if not stored:
            raise ValueError(
                f"{key!r} ({len(encoded)} bytes) exceeds the limit of the session: its values may have "
                f"{most} bytes (max_session_state_bytes)"
            )

    async def delete(self, key: str) -> None:
        """Remove a value, if it is there.

        Raises:
            ServerUnavailable: the shared store has failed.
        """
        if self._replica is not None:
            await self._replica.ask(self._replica.state.sessions.delete_value(self.id, key))
        elif key in self._values:
            self._client.give(_size(key, self._values.pop(key)))

    def close(self) -> None:
        """Drop the values that are in the memory of this process."""
        self._is_open = False
        for key in list(self._values):
            self._client.give(_size(key, self._values.pop(key)))

    def _keep(self, key: str, encoded: bytes, most: int) -> bool:
        """Store a value in memory; return False if the session would have more than ``most`` bytes.

        Raises:
            ServerUnavailable: the memory budget of the client is used up.
        """
        if not self._is_open:
            return True
        others = sum(len(name.encode()) + len(value) for name, value in self._values.items() if name != key)
        if others + len(key.encode()) + len(encoded) > most:
            return False
        growth = _size(key, encoded) - (_size(key, self._values[key]) if key in self._values else 0)
        if growth > 0 and not self._client.take(growth):
            raise ServerUnavailable(NO_ROOM)
        if growth < 0:
            self._client.give(-growth)
        self._values[key] = encoded
        return True


def _size(key: str, encoded: bytes) -> int:
    """Return the bytes of memory that a value takes."""
    return VALUE_BYTES + len(key.encode()) + len(encoded)
