"""Cache of verified access tokens."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256

from carrel.protocol.principal import Principal
from carrel.security.server.bearer import Clock

__all__ = ["TokenCache"]

#: Maximum number of cached tokens.
MAX_TOKENS = 10_000


class TokenCache:
    """Cache of the principals of verified tokens, for ``seconds``, or until the token's expiry plus ``leeway`` seconds.

    Tokens themselves are not stored, only their hashes.
    """

    def __init__(self, seconds: float, leeway: float, clock: Clock) -> None:
        self._seconds = seconds
        self._leeway = leeway
        self._clock = clock
        self._found: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def get(self, token: str, now: float) -> Principal | None:
        """Return the principal of a cached token, or None; ``now`` is in seconds since the epoch."""
        key = sha256(token.encode("ascii")).digest()
        entry = self._found.get(key)
        if entry is None:
            return None
        until, principal = entry
        if self._clock() < until and (principal.expires is None or now < principal.expires + self._leeway):
            return principal
        del self._found[key]
        return None

    def put(self, token: str, principal: Principal) -> None:
        """Store the principal of a verified token."""
        if self._seconds <= 0:
            return
        self._found[sha256(token.encode("ascii")).digest()] = (self._clock() + self._seconds, principal)
        while len(self._found) > MAX_TOKENS:
            self._found.popitem(last=False)

    def clear(self) -> None:
        """Remove all tokens."""
        self._found.clear()
