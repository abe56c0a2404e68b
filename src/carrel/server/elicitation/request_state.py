"""Encrypted ``requestState`` of multi round-trip requests, kept by the client, and its protection against replay.

The state is encrypted and authenticated (AES-256-GCM), bound to the caller, the method and its parameters, and
short-lived. Only a holder of the key can read or change it. A process records which states have been used.

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
from carrel.limits import Budget

__all__ = ["Exchanges", "RequestStateCipher"]

#: Bytes of a key.
KEY_SIZE = 32
NONCE_SIZE = 12
NAME_SIZE = 4
#: Bytes of memory that one exchange takes, about.
EXCHANGE_SIZE = 512


class Content(msgspec.Struct, array_like=True):
    expires: float
    value: dict[str, Any]


_read = msgspec.msgpack.Decoder(Content).decode


class Exchange(msgspec.Struct):
    """A multi round-trip request, from its first questions to its result: its last used state, and the answers with it.

    ``asked``: the handler has ended with further questions, and has not done its work yet.
    """

    client: str
    expires: float
    step: int
    answers: bytes
    asked: bool = False


class Exchanges:
    """Multi round-trip requests in progress; each of their states is used once.

    A client that has lost the response may send the same state with the same answers again only if the response was
    further questions: then nothing has been done. The states of an exchange are one sequence, so however often a step
    is repeated, only one of the next steps is taken. An exchange is dropped once all its states have expired; until
    then it counts against ``budget``.
    """

    def __init__(self, budget: Budget, ttl: float) -> None:
        self._budget = budget
        self._ttl = ttl
        self._exchanges: dict[bytes, Exchange] = {}

    def __len__(self) -> int:
        return len(self._exchanges)

    def use(self, id: bytes, step: int, answers: bytes, client: str) -> None:
        """Record that the state of a step is used, with these answers.

        Raises:
            InvalidParams: it was used before, or the client has too many exchanges under way.
        """
        self._sweep()
        known = self._exchanges.get(id)
        if known is None:
            if not self._budget.take(client, EXCHANGE_SIZE):
                raise InvalidParams(
                    "Invalid params: requestState is not accepted now: this client has too many requests under way",
                    parameter="requestState",
                )
        elif not known.asked or step < known.step or (step == known.step and answers != known.answers):
            raise InvalidParams(
                "Invalid params: requestState has been used already; make the request again without it",
                parameter="requestState",
            )
        else:
            client = known.client
        self._put(id, Exchange(client, time.monotonic() + self._ttl, step, answers))

    def ask(self, id: bytes) -> None:
        """Record that the handler of an exchange has ended with further questions."""
        known = self._exchanges.get(id)
        if known is not None:
            known.asked, known.expires = True, time.monotonic() + self._ttl  # as long as the state that goes out now
            self._put(id, known)

    def _put(self, id: bytes, exchange: Exchange) -> None:
        """Store an exchange behind all others: it expires after them."""
        self._exchanges.pop(id, None)
        self._exchanges[id] = exchange

    def _sweep(self) -> None:
        now = time.monotonic()
        while self._exchanges:
            id, oldest = next(iter(self._exchanges.items()))
            if oldest.expires > now:
                return
            del self._exchanges[id]
            self._budget.give(oldest.client, EXCHANGE_SIZE)


class RequestStateCipher:
    """Encrypts request states with the first key, and decrypts them with any of the keys.

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
        """Encrypt ``value`` so that it decrypts only with the same ``binding``, until it expires."""
        nonce = os.urandom(NONCE_SIZE)
        plain = msgspec.msgpack.encode(Content(time.time() + self._ttl, value))
        sealed = self._ciphers[self._first].encrypt(nonce, plain, binding)
        return binascii.b2a_base64(self._first + nonce + sealed, newline=False).decode()

    def open(self, state: str, binding: bytes) -> dict[str, Any]:
        """Decrypt a request state and return its value.

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
