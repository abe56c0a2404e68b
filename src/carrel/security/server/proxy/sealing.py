"""Encryption (AES-256-GCM) of client ids, codes, tokens, cookies and grants, which the OAuth proxy issues or stores."""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec

from carrel.errors import ConfigError

__all__ = ["Sealer"]

T = TypeVar("T")

#: Bytes of a key, of a nonce, and of the name of a key.
KEY_SIZE = 32
NONCE_SIZE = 12
NAME_SIZE = 4


class Sealer:
    """Encrypts with the first key, and decrypts with any key. Without keys, a key is generated for this process.

    A value can be decrypted only with the same purpose, which is authenticated data.

    Raises:
        ConfigError: a key is not 32 bytes long, or the encryption library is not installed.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError("OAuthProxy needs the package cryptography: pip install 'carrel[auth]'") from None
        if any(len(key) != KEY_SIZE for key in keys):
            raise ConfigError(f"A key of OAuthProxy has {KEY_SIZE} bytes: secrets.token_bytes({KEY_SIZE})")
        keys = keys or (os.urandom(KEY_SIZE),)
        self._ciphers = {sha256(b"proxy" + key).digest()[:NAME_SIZE]: AESGCM(key) for key in keys}
        self._first = next(iter(self._ciphers))

    def seal(self, purpose: str, value: msgspec.Struct) -> str:
        """Encrypt a struct, and return it as URL-safe text."""
        nonce = os.urandom(NONCE_SIZE)
        sealed = self._ciphers[self._first].encrypt(nonce, msgspec.msgpack.encode(value), f"carrel {purpose}".encode())
        return urlsafe_b64encode(self._first + nonce + sealed).rstrip(b"=").decode()

    def open(self, purpose: str, text: str, kind: type[T]) -> T | None:
        """Decrypt a struct, or return None if it was encrypted for another purpose or was modified."""
        from cryptography.exceptions import InvalidTag

        try:
            data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            cipher = self._ciphers[data[:NAME_SIZE]]
            nonce, sealed = data[NAME_SIZE : NAME_SIZE + NONCE_SIZE], data[NAME_SIZE + NONCE_SIZE :]
            plain = cipher.decrypt(nonce, sealed, f"carrel {purpose}".encode())
            return msgspec.msgpack.decode(plain, type=kind)
        except (ValueError, KeyError, InvalidTag, msgspec.DecodeError, binascii.Error):
            return None
