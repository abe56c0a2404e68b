"""Resource limits of one server: sizes, counts and timeouts, in total and per client.

``Limits`` are the settings, ``Budget`` counts the bytes kept for clients. docs/limits.md lists every field.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import msgspec

from carrel.errors import ConfigError

__all__ = ["NO_ROOM", "Budget", "Limits", "Quota"]

#: Error message for a client that has used up its budget.
NO_ROOM = "Too much is kept for this client already (max_kept_bytes_per_client): read what waits, and try again later"

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server. Well-behaved clients do not reach the defaults. Sizes are in bytes, times in seconds.

    A *client* is the user of an access token, or else the address of a connection. Most limits apply to one client
    before they apply to all: if a client exceeds a limit, its requests are rejected, and other clients are not
    affected.

    Raises:
        ConfigError: a limit is not a positive number.
    """

    # Messages, on every transport
    max_message_bytes: int = 16 * MIB
    max_requests_in_flight: int = 4096

    # Connections over HTTP
    max_connections: int = 10_000
    max_connections_per_address: int = 2_500
    max_header_bytes: int = 64 * KIB
    max_header_count: int = 100
    max_request_line_bytes: int = 8 * KIB
    header_timeout: float = 10.0
    idle_timeout: float = 15.0
    keep_alive_timeout: float = 30.0
    body_timeout: float = 60.0
    write_timeout: float = 60.0
    max_unfinished_body_bytes: int = 128 * MIB

    # Sessions and streams over HTTP
    max_sessions: int = 10_000
    max_sessions_per_client: int = 2_500
    session_ttl: float = 1800.0
    max_session_state_bytes: int = 64 * KIB
    max_streams_per_session: int = 8
    replay_ttl: float = 120.0

    # Bytes and objects kept for clients
    max_kept_bytes: int = 256 * MIB
    max_kept_bytes_per_client: int = 64 * MIB
    max_subscriptions: int = 10_000
    max_listeners_per_client: int = 2_500
    max_tasks: int = 10_000
    max_tasks_per_client: int = 1_000

    # Handlers
    max_threads: int = 32
    max_threads_per_client: int = 16
    max_waiting_for_threads_per_client: int = 4096
    slow_handler_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"The limit {name} must be a number above 0, not {value!r}")


#: Limits that cannot change while a server runs: the table of connections and the file descriptors depend on them.
FIXED = ("max_connections", "max_connections_per_address")


class Quota:
    """Counter of usage by client: at most ``total`` in all, and at most ``share`` per client."""

    __slots__ = ("_by_client", "share", "total", "used")

    def __init__(self, total: int, share: int) -> None:
        self.total = total
        self.share = share
        self.used = 0
        self._by_client: dict[str, int] = {}

    def limit(self, total: int, share: int) -> None:
        """Change the limits. Existing usage is kept, even above the new limits."""
        self.total = total
        self.share = share

    def used_by(self, client: str) -> int:
        """Return the usage of a client."""
        return self._by_client.get(client, 0)

    def take(self, client: str, size: int = 1) -> bool:
        """Add ``size`` to the usage of a client; return False if that exceeds its share or the total."""
        used = self._by_client.get(client, 0) + size
        if used > self.share or self.used + size > self.total:
            return False
        self._by_client[client] = used
        self.used += size
        return True

    def give(self, client: str, size: int = 1) -> None:
        """Subtract ``size`` from the usage of a client."""
        used = self._by_client.get(client, 0) - size
        self.used -= size
        if used > 0:
            self._by_client[client] = used
        else:
            self._by_client.pop(client, None)


class Budget(Quota):
    """Budget of bytes kept for clients. Bytes taken must be given back when they are released.

    A client may use its ``share``, but at most half of the part of ``total`` that other clients have not used. So there
    is always room for one more client.
    """

    __slots__ = ("_evictable",)

    def __init__(self, total: int, share: int) -> None:
        super().__init__(total, share)
        self._evictable: dict[str, dict[Hashable, Callable[[], None]]] = {}

    def take(self, client: str, size: int = 1) -> bool:
        """Take ``size`` bytes for a client; return False if there is no room for them."""
        if not self.make_room(client, size):
            return False
        self._by_client[client] = self._by_client.get(client, 0) + size
        self.used += size
        return True

    def make_room(self, client: str, size: int) -> bool:
        """Return whether a client may have ``size`` more bytes, evicting items to make room."""
        if size > self.share:
            return False
        while True:
            used = self._by_client.get(client, 0)
            if used + size <= min(self.share, (self.total - self.used + used) // 2):
                return True
            evictable = self._evictable.get(client)
            if not evictable:
                return False
            oldest = next(iter(evictable))
            drop = evictable[oldest]
            self.remove_evictable(client, oldest)
            drop()

    def add_evictable(self, client: str, key: Hashable, drop: Callable[[], None]) -> None:
        """Register an item as evictable: ``drop`` is called when the client needs room, oldest item first."""
        self._evictable.setdefault(client, {})[key] = drop

    def remove_evictable(self, client: str, key: Hashable) -> None:
        """Unregister an item that may be evicted, if it is registered."""
        evictable = self._evictable.get(client)
        if evictable is not None:
            evictable.pop(key, None)
            if not evictable:
                del self._evictable[client]
