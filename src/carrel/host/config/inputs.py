"""Inputs: values for configurations that the user enters once, stored in the keyring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from carrel.errors import AuthorizationError, ConfigError
from carrel.host.config.server_config import Input, ServerConfig

__all__ = ["AskInput", "InputStore", "Inputs", "key_of"]

#: Prompts the user for an input that a server needs. Returns the value, or None if the user declines.
AskInput: TypeAlias = Callable[[Input, ServerConfig], Awaitable[str | None]]


class InputStore(Protocol):
    """Store of texts by name. ``carrel.security.client.KeyringStore`` is one."""

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name, or None."""

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name."""

    async def delete(self, name: str) -> None:
        """Delete the text stored under a name, if any."""


class Inputs:
    """Values of inputs. A value that is not in the store is requested from the user with ``ask``, and stored.

    By default, ``store`` is the keyring of the operating system, which requires the extra ``keyring``.
    """

    def __init__(self, ask: AskInput | None = None, store: InputStore | None = None) -> None:
        self._ask = ask
        self._store = store
        self._asking = asyncio.Lock()
        """Serializes the prompts, so that the user enters each input only once."""

    @property
    def store(self) -> InputStore:
        """The store.

        Raises:
            ConfigError: the package keyring is not installed.
        """
        if self._store is None:
            from carrel.security.client.keyring_store import KeyringStore

            self._store = KeyringStore()
        return self._store

    async def value(self, id: str, server: ServerConfig) -> str:
        """Return the value of an input that a server uses.

        Raises:
            ConfigError: there is no stored value, and the user cannot be prompted or declines; or storing it fails.
        """
        key = key_of(id, server)
        async with self._asking:
            kept = await self.store.get(key)
            if kept is not None:
                return kept
            wanted = server.inputs.get(id) or Input(id, password=True)
            given = None if self._ask is None else await self._ask(wanted, server)
            if given is None:
                about = f" ({wanted.description})" if wanted.description else ""
                raise ConfigError(f"the input {id!r}{about} is not given")
            try:
                await self.store.put(key, given)
            except AuthorizationError as error:
                raise ConfigError(f"the input {id!r} cannot be kept in the keyring") from error
            return given

    async def forget(self, id: str, server: ServerConfig) -> None:
        """Delete the stored value of an input, so that the user is prompted again."""
        await self.store.delete(key_of(id, server))


def key_of(id: str, server: ServerConfig) -> str:
    """Return the name of an input in the store. Inputs are separate for each configuration file."""
    return f"input {id} of {server.origin.file if server.origin is not None else server.name}"
