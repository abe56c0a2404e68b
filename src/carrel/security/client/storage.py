"""Where tokens and registrations are kept.

A store knows nothing of what is in it: it has a text for a name. Names tell issuers, servers, clients and accounts
apart; texts are secret.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from carrel.errors import AuthorizationError
from carrel.log import Log

__all__ = ["MemoryStore", "TokenStore", "UserStore", "open_store"]

log = Log("carrel.security")


class TokenStore(Protocol):
    """Keeps secret texts by their names."""

    async def get(self, name: str) -> str | None:
        """Return the text of a name; None if there is none, or none that can be had."""

    async def put(self, name: str, text: str) -> None:
        """Keep a text. What was there before is replaced at once, or not at all."""

    async def delete(self, name: str) -> None:
        """Forget a text, if there is one."""


class MemoryStore:
    """Keeps secrets as long as the process runs."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """Return the text of a name."""
        return self._texts.get(name)

    async def put(self, name: str, text: str) -> None:
        """Keep a text."""
        self._texts[name] = text

    async def delete(self, name: str) -> None:
        """Forget a text."""
        self._texts.pop(name, None)


class UserStore:
    """Keeps secrets in the keyring of the operating system; where there is none, in files that only this user can read.

    Which one it is turns out when it is first needed: asking for a keyring takes time.
    """

    def __init__(self) -> None:
        self._store: TokenStore | None = None

    async def get(self, name: str) -> str | None:
        """Return the text of a name."""
        return await (await self._open()).get(name)

    async def put(self, name: str, text: str) -> None:
        """Keep a text.

        Raises:
            AuthorizationError: it cannot be kept.
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
        """Forget a text."""
        await (await self._open()).delete(name)

    async def _open(self) -> TokenStore:
        if self._store is None:
            self._store = await asyncio.to_thread(open_store)
        return self._store


def open_store() -> TokenStore:
    """Return the keyring of the operating system; where there is none, files that only this user can read."""
    from carrel.security.client.file_store import FileStore
    from carrel.security.client.keyring_store import KeyringStore

    return KeyringStore() if KeyringStore.available() else FileStore()
