"""Token store in the keyring of the operating system: Keychain, Credential Locker, Secret Service, KWallet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from carrel.errors import AuthorizationError, ConfigError
from carrel.log import Log
from carrel.references import import_keyring

__all__ = ["KeyringStore"]

log = Log("carrel.security")

T = TypeVar("T")
SERVICE = "carrel"
#: Maximum length of the text in one entry, in characters: Windows accepts at most 2560 bytes in UTF-16.
PIECE = 1200


class KeyringStore:
    """Token store in a keyring; a text that is too long for one entry is split.

    ``backend`` is a backend of the package keyring; by default the one that it selects on this machine.

    Raises:
        ConfigError: the package is not installed.
    """

    def __init__(self, backend: Any = None) -> None:
        keyring = import_keyring()
        self._lock = threading.Lock()
        self._backend: Any = keyring.get_keyring() if backend is None else backend

    @staticmethod
    def available() -> bool:
        """Return whether this machine has a usable keyring backend."""
        try:
            return bool(import_keyring().get_keyring().priority >= 1)
        except ConfigError:
            return False
        except Exception as error:  # backends raise arbitrary exceptions; FileStore is the fallback
            log.info("the keyring cannot be used: %s", error)
            return False

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name; None if it is missing or unreadable."""
        return await asyncio.to_thread(self._alone, self._read, name)

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name."""
        await asyncio.to_thread(self._alone, self._write, name, text)

    async def delete(self, name: str) -> None:
        """Delete the text stored under a name, if any."""
        await asyncio.to_thread(self._alone, self._erase, name)

    def _alone(self, act: Callable[..., T], *arguments: str) -> T:
        with self._lock:  # a text may span several entries
            return act(*arguments)

    def _read(self, name: str) -> str | None:
        try:
            count = int(self._backend.get_password(SERVICE, name) or 0)
            pieces = [self._backend.get_password(SERVICE, f"{name}#{number}") for number in range(count)]
        except Exception as error:
            log.warning("the keyring cannot be read: %s", error)
            return None
        return "".join(pieces) if pieces and None not in pieces else None

    def _write(self, name: str, text: str) -> None:
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)] or [""]
        try:
            self._erase(name)
            for number, piece in enumerate(pieces):
                self._backend.set_password(SERVICE, f"{name}#{number}", piece)
            self._backend.set_password(SERVICE, name, str(len(pieces)))  # last, as it marks the text as complete
        except Exception as error:
            raise AuthorizationError(
                f"Tokens cannot be stored in the keyring ({error}), only in files: store=FileStore()"
            ) from None

    def _erase(self, name: str) -> None:
        with suppress(Exception):
            count = int(self._backend.get_password(SERVICE, name) or 0)
            self._backend.delete_password(SERVICE, name)
            for number in range(count):
                self._backend.delete_password(SERVICE, f"{name}#{number}")
