"""Vault: token store that encrypts the grants of one principal (AES-256-GCM) and keeps them in another store.

The principal and the entry's name are authenticated data: decryption fails if an entry is copied to another name, or to
another principal. Names in the other store are hashes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.security.client.storage import TokenStore, UserStore
from carrel.security.server.proxy.sealing import Sealer

__all__ = ["KEYS", "Vault", "VaultKeys", "parse_keys"]

log = Log("carrel.gateway")

#: Environment variable with comma-separated keys in hexadecimal digits; the first key encrypts.
KEYS = "CARREL_GATEWAY_KEYS"
KEY_SIZE = 32
#: Name of the generated key in the store, if no keys are configured.
KEY_NAME = "carrel gateway key"


class VaultEntry(msgspec.Struct):
    text: str


class VaultKeys:
    """Keys of the vaults: from the argument, or the environment, or a key that is generated once and kept in ``store``.

    Raises:
        ConfigError: a key does not have 32 bytes, or the package cryptography is not installed.
    """

    def __init__(
        self, keys: Sequence[bytes] = (), store: TokenStore | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        given = list(keys) or parse_keys(environment.get(KEYS, ""))
        self._store: TokenStore = UserStore() if store is None else store
        self._sealer = Sealer(given) if given else None
        self._lock = asyncio.Lock()

    async def sealer(self) -> Sealer:
        """Return the sealer with these keys. Generate a key if there is no key."""
        async with self._lock:  # if two keys were generated at the same time, one would be lost
            if self._sealer is None:
                text = await self._store.get(KEY_NAME)
                if text is None:
                    await self._store.put(KEY_NAME, secrets.token_hex(KEY_SIZE))
                    text = await self._store.get(KEY_NAME)  # use the key of another process if it was faster
                self._sealer = Sealer(parse_keys(text or ""))
        return self._sealer


def parse_keys(text: str, variable: str = KEYS) -> list[bytes]:
    """Parse comma-separated keys of 32 bytes in hexadecimal digits. ``variable`` is their name in errors.

    Raises:
        ConfigError: a key is not valid.
    """
    try:
        keys = [bytes.fromhex(part) for part in text.split(",") if part.strip()]
    except ValueError:
        keys = [b""]
    if any(len(key) != KEY_SIZE for key in keys):
        raise ConfigError(
            f"keys ({variable}): each has {2 * KEY_SIZE} hexadecimal digits: openssl rand -hex {KEY_SIZE}"
        )
    return keys


class Vault:
    """Encrypted token store of one principal. All principals share the gateway's OAuth client registrations."""

    def __init__(self, store: TokenStore, keys: VaultKeys, principal: str) -> None:
        self._store = store
        self._keys = keys
        self._principal = principal

    def _entry(self, name: str) -> tuple[str, str]:
        """Return the name of an entry in the other store, and its authenticated data."""
        try:
            parts = msgspec.json.decode(name, type=list[str | None])
        except msgspec.DecodeError:
            parts = [name]
        owner = self._principal
        if parts[0] == "client":
            parts, owner = parts[:-1], ""  # without the account
        purpose = msgspec.json.encode((owner, *parts)).decode()
        return f"gateway {sha256(purpose.encode()).hexdigest()}", f"grant {purpose}"

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name, or None if it is missing or cannot be decrypted."""
        key, purpose = self._entry(name)
        sealed = await self._store.get(key)
        if sealed is None:
            return None
        entry = (await self._keys.sealer()).open(purpose, sealed, VaultEntry)
        if entry is None:
            log.warning(
                "a stored grant cannot be decrypted, such as after a change of keys: the user has to log in again"
            )
        return None if entry is None else entry.text

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name."""
        key, purpose = self._entry(name)
        await self._store.put(key, (await self._keys.sealer()).seal(purpose, VaultEntry(text)))

    async def delete(self, name: str) -> None:
        """Delete the text stored under a name, if any."""
        await self._store.delete(self._entry(name)[0])
