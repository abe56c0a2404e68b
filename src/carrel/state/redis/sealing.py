"""Encryption of records in the store, and digests for the names of their keys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from carrel.errors import ConfigError
from carrel.state.interfaces import StoreUnavailable

__all__ = ["OVERHEAD", "RecordSealer", "digest"]

KEY_SIZE = 32
NAME_SIZE = 4
NONCE_SIZE = 12
TAG_SIZE = 16
#: Bytes that sealing adds to a text.
OVERHEAD = NAME_SIZE + NONCE_SIZE + TAG_SIZE


class RecordSealer:
    """Encrypts with AES-256-GCM, with a key derived from the first key; decrypts with any of the keys.

    Raises:
        ConfigError: there is no key, a key is not 32 bytes long, or the library that encrypts is not installed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError(
                "State in Redis needs the package cryptography, to encrypt it: pip install 'carrel[redis]'"
            ) from None
        if not keys or any(len(key) != KEY_SIZE for key in keys):
            raise ConfigError(
                f"State in Redis is encrypted: all replicas need the same state_keys, each of {KEY_SIZE} bytes"
            )
        self._invalid = InvalidTag
        derived = [hashlib.blake2b(key, digest_size=KEY_SIZE, person=b"carrel state").digest() for key in keys]
        self._ciphers = {hashlib.sha256(key).digest()[:NAME_SIZE]: AESGCM(key) for key in derived}
        self._name, self._cipher = next(iter(self._ciphers.items()))

    def seal(self, plain: bytes, binding: bytes) -> bytes:
        """Encrypt a text so that it decrypts only with the same ``binding``."""
        nonce = os.urandom(NONCE_SIZE)
        return self._name + nonce + self._cipher.encrypt(nonce, plain, binding)

    def is_current(self, sealed: bytes) -> bool:
        """Return whether a text was sealed with the first key."""
        return sealed.startswith(self._name)

    def open(self, sealed: bytes, binding: bytes) -> bytes:
        """Decrypt a text.

        Raises:
            StoreUnavailable: it was sealed with another key, or was changed.
        """
        found = self.try_open(sealed, binding)
        if found is None:
            raise StoreUnavailable("a record cannot be decrypted: do all replicas have the same state_keys?")
        return found

    def try_open(self, sealed: bytes, binding: bytes) -> bytes | None:
        """Decrypt a text; return None if it was sealed with another key, or was changed."""
        cipher = self._ciphers.get(sealed[:NAME_SIZE])
        if cipher is None or len(sealed) < OVERHEAD:
            return None
        try:
            nonce = sealed[NAME_SIZE : NAME_SIZE + NONCE_SIZE]
            return cipher.decrypt(nonce, sealed[NAME_SIZE + NONCE_SIZE :], binding)
        except self._invalid:
            return None


def digest(*texts: bytes) -> str:
    """Return a digest of texts, each of which may have any bytes."""
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(len(text).to_bytes(8, "big"))
        found.update(text)
    return found.hexdigest()
