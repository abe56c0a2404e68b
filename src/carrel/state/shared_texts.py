"""SharedTexts: texts in the state that replicas share, so that a login at one replica holds at all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carrel.state.replica import Replica

__all__ = ["SharedTexts"]

#: Seconds for which a text without a given lifetime is kept after it was stored.
YEAR = 365 * 86400.0


class SharedTexts:
    """Store for texts in the shared state of a server, for ``OAuthProxy(store=…)`` and ``Grants(store=…)``.

    Args:
        replica: returns the server among its replicas, such as ``lambda: app.endpoint.replica``.
        name: name of the store; stores with other names have other texts.
    """

    def __init__(self, replica: Callable[[], Replica], name: str) -> None:
        self._replica = replica
        self._name = name

    async def get(self, key: str) -> str | None:
        """Return a text, or None.

        Raises:
            ServerUnavailable: the shared state cannot be reached.
        """
        replica = self._replica()
        return text_of(await replica.ask(replica.state.records.get(self._key(key))))

    async def put(self, key: str, text: str, ttl: float = YEAR) -> None:
        """Store a text for ``ttl`` seconds. Replace an existing text with the same key.

        Raises:
            ServerUnavailable: the shared state cannot be reached.
        """
        replica = self._replica()
        await replica.ask(replica.state.records.put(self._key(key), text.encode(), ttl))

    async def take(self, key: str) -> str | None:
        """Return a text and remove it atomically: only one of several concurrent callers gets it.

        Raises:
            ServerUnavailable: the shared state cannot be reached.
        """
        replica = self._replica()
        return text_of(await replica.ask(replica.state.records.take(self._key(key))))

    async def delete(self, key: str) -> None:
        """Remove a text, if it is there.

        Raises:
            ServerUnavailable: the shared state cannot be reached.
        """
        replica = self._replica()
        await replica.ask(replica.state.records.delete(self._key(key)))

    def _key(self, key: str) -> str:
        return f"{self._name} {key}"


def text_of(value: bytes | None) -> str | None:
    """Return a record as text."""
    return None if value is None else value.decode()
