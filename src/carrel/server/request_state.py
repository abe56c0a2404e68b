"""What a server needs to know again when a client comes back with answers, sealed and given to the client to keep.

The state is encrypted and authenticated (AES-256-GCM), bound to who asked, what was asked and how it was asked, and
short-lived. Nobody but a holder of the key can read or change it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow
"""

from __future__ import annotations

import binascii
import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.errors import ConfigError, InvalidParams

__all__ = ["Sealer"]

#: Bytes of a key.
KEY_SIZE = 32
NONCE_SIZE = 12
NAME_SIZE = 4


class Content(msgspec.Struct, array_like=True):
    expires: float
    value: dict[str, Any]


_read = msgspec.msgpack.Decoder(Content).decode


class Sealer:
    """Seals state with the first key, and opens what was sealed with any of them.

    Without keys, a new one is made, which no other process knows. ``ttl`` is in seconds.

    Raises:
        ConfigError: a key is not 32 bytes long, or the library that encrypts is not installed.
    """

    def __init__(self, keys: Sequence[bytes] = (), ttl: float = 600.0) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError(
                "Asking clients of this revision needs the package cryptography: pip install 'carrel[ask]'"
            ) from None
        if any(len(key) != KEY_SIZE for key in keys):
            raise ConfigError(f"A key of request states has {KEY_SIZE} bytes")
        keys = keys or (os.urandom(KEY_SIZE),)
        self._ttl = ttl
        self._ciphers = {hashlib.sha256(key).digest()[:NAME_SIZE]: AESGCM(key) for key in keys}
        self._first = next(iter(self._ciphers))

    def seal(self, value: dict[str, Any], binding: bytes) -> str:
        """Seal ``value`` so that it opens only with the same ``binding``, for a while."""
        nonce = os.urandom(NONCE_SIZE)
        plain = msgspec.msgpack.encode(Content(time.time() + self._ttl, value))
        sealed = self._ciphers[self._first].encrypt(nonce, plain, binding)
        return binascii.b2a_base64(self._first + nonce + sealed, newline=False).decode()

    def open(self, state: str, binding: bytes) -> dict[str, Any]:
        """Return what was sealed.

        Raises:
            InvalidParams: it was not sealed here, was changed, belongs to another request or caller, or is too old.
        """
        from cryptography.exceptions import InvalidTag

        refused = InvalidParams("Invalid params: requestState is not valid for this request", parameter="requestState")
        try:
            data = binascii.a2b_base64(state.encode("ascii"), strict_mode=True)
            cipher = self._ciphers[data[:NAME_SIZE]]
            nonce, sealed = data[NAME_SIZE : NAME_SIZE + NONCE_SIZE], data[NAME_SIZE + NONCE_SIZE :]
            content = _read(cipher.decrypt(nonce, sealed, binding))
        except (ValueError, KeyError, InvalidTag, msgspec.DecodeError):
            raise refused from None
        if content.expires < time.time():
            raise InvalidParams("Invalid params: requestState has expired", parameter="requestState")
        return content.value
