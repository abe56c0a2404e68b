"""Encrypted ``requestState`` of multi round-trip requests, kept by the client, and its protection against replay.

The state is encrypted and authenticated (AES-256-GCM), bound to the caller, the method and its parameters, and
short-lived. Only a holder of the key can read or change it. Which states have been used is in the state that replicas
share.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow
"""

from __future__ import annotations

import binascii
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.errors import ConfigError, InvalidParams
from carrel.limits import Budget

if TYPE_CHECKING:
    from carrel.state.replica import Replica

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


class Exchanges:
    """Multi round-trip requests in progress; each of their states is used once on all replicas.

    A client that has lost the response may send the same state with the same answers again only if the response was
    further requests: then nothing has been done. The states of an exchange are one sequence, so however often a step
    is repeated, only one of the next steps is taken. An exchange is dropped once all its states have expired (``ttl``
    seconds); until then it counts against ``budget``. ``replica`` is the server among its replicas.
    """

    def __init__(self, replica: Replica, budget: Budget, ttl: float) -> None:
        self._replica = replica
        self._budget = budget
        self._ttl = ttl
        self._counted: dict[bytes, tuple[str, float]] = {}
        """The client and the expiry of each counted exchange, ordered by expiry."""

    def __len__(self) -> int:
        return len(self._counted)

    async def use(self, id: bytes, step: int, answers: bytes, client: str) -> None:
        """Record that the state of a step is used, with these answers.

        Raises:
            InvalidParams: it was used before, or the client has too many exchanges under way.
            ServerUnavailable: the store has failed.
        """
        self._sweep()
        known = self._counted.get(id)
        if known is None and not self._budget.take(client, EXCHANGE_SIZE):
            raise InvalidParams(
                "Invalid params: requestState is not accepted now: this client has too many requests under way",
                parameter="requestState",
            )
        taken = False
        try:
            taken = await self._replica.ask(self._replica.state.used.use(id, step, answers, self._ttl))
        finally:
            if known is None and not taken:
                self._budget.give(client, EXCHANGE_SIZE)
        if not taken:
            raise InvalidParams(
                "Invalid params: requestState has been used already; make the request again without it",
                parameter="requestState",
            )
        self._count(id, client if known is None else known[0])

    async def ask(self, id: bytes) -> None:
        """Record that the handler of an exchange has ended with further requests.

        Raises:
            ServerUnavailable: the store has failed.
        """
        await self._replica.ask(self._replica.state.used.asked(id, self._ttl))
        known = self._counted.get(id)
        if known is not None:
            self._count(id, known[0])  # as long as the state that goes out now

    def _count(self, id: bytes, client: str) -> None:
        """Count an exchange behind all others: it expires after them."""
        self._counted.pop(id, None)
        self._counted[id] = (client, time.monotonic() + self._ttl)

    def _sweep(self) -> None:
        now = time.monotonic()
        while self._counted:
            id, (client, expires) = next(iter(self._counted.items()))
            if expires > now:
                return
            del self._counted[id]
            self._budget.give(client, EXCHANGE_SIZE)


class RequestStateCipher:
    """Encrypts request states with the first key, and decrypts them with any of the keys.

    Without keys, a random key is generated, which no other process knows. ``ttl`` is in seconds, by the clock
    ``now``, which all replicas share.

    Raises:
        ConfigError: a key is not 32 bytes long, or the library that encrypts is not installed.
    """

    def __init__(self, keys: Sequence[bytes] = (), ttl: float = 600.0, now: Callable[[], float] = time.time) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError(
                "Requests to clients of this revision need the package cryptography: pip install 'carrel[ask]'"
            ) from None
        if any(len(key) != KEY_SIZE for key in keys):
            raise ConfigError(f"A key of request states has {KEY_SIZE} bytes")
        keys = keys or (os.urandom(KEY_SIZE),)
        self._ttl = ttl
        self._now = now
        self._ciphers = {hashlib.sha256(key).digest()[:NAME_SIZE]: AESGCM(key) for key in keys}
        self._first = next(iter(self._ciphers))

    def seal(self, value: dict[str, Any], binding: bytes) -> str:
        """Encrypt ``value`` so that it decrypts only with the same ``binding``, until it expires."""
        nonce = os.urandom(NONCE_SIZE)
        plain = msgspec.msgpack.encode(Content(self._now() + self._ttl, value))
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
        if content.expires < self._now():
            raise InvalidParams("Invalid params: requestState has expired", parameter="requestState")
        return content.value
