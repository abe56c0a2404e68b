"""Token stores: persistence of access tokens and client registrations.

A store is an opaque key-value mapping from names to texts. Names distinguish issuers, servers, clients and accounts;
texts are secret.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from carrel.errors import AuthorizationError
from carrel.log import Log

__all__ = ["MemoryStore", "TokenStore", "UserStore", "open_store"]

log = Log("carrel.security")


class TokenStore(Protocol):
    """Interface of a token store: secret texts by their names."""

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name; None if it is missing or unreadable."""

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name. An existing text is replaced atomically."""

    async def delete(self, name: str) -> None:
        """Delete the text of a name, if there is one."""


class MemoryStore:
    """Token store in memory, for the lifetime of the object."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name; None if it is missing."""
        return self._texts.get(name)

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name."""
        self._texts[name] = text

    async def delete(self, name: str) -> None:
        """Delete the text of a name, if there is one."""
        self._texts.pop(name, None)


class UserStore:
    """Default token store: the keyring of the operating system; without one, files that only this user can read.

    The choice is made on first use, as probing the keyring takes time.
    """

    def __init__(self) -> None:
        self._store: TokenStore | None = None

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name; None if it is missing."""
        return await (await self._open()).get(name)

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name.

        Raises:
            AuthorizationError: the text cannot be stored.
        """
        from carrel.security.client.file_store import FileStore

        store = await self._open()
        try:
            await store.put(name, text)
        except AuthorizationError as error:
            if isinstance(store, FileStore):
                raise
            log.warning("%s", error)
            self._store = FileStore()
            await self._store.put(name, text)

    async def delete(self, name: str) -> None:
        """Delete the text of a name, if there is one."""
        await (await self._open()).delete(name)

    async def _open(self) -> TokenStore:
        if self._store is None:
            self._store = await asyncio.to_thread(open_store)
        return self._store


def open_store() -> TokenStore:
    """Return a store in the keyring of the operating system; without one, a store in files."""
    from carrel.security.client.file_store import FileStore
    from carrel.security.client.keyring_store import KeyringStore

    return KeyringStore() if KeyringStore.available() else FileStore()
