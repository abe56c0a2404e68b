"""JSON Web Key Sets (JWKS): discovery, caching and refresh of an issuer's public keys.

https://www.rfc-editor.org/rfc/rfc7517
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.log import Log
from carrel.security.discovery import find_endpoint
from carrel.security.fetch import Fetcher
from carrel.security.server.bearer import Clock, Unverifiable

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

__all__ = ["ALGORITHMS", "IssuerKeys", "PublicKey"]

log = Log("carrel.security")

#: Key type and, if needed, curve of each signature algorithm. Algorithms with shared secrets (HMAC) are not supported,
#: as the verifier of such a signature could also create it.
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
SAME = {"Ed25519": "EdDSA"}  # two names of one algorithm (RFC 9864)

#: Maximum number of keys to read per issuer, and to try per token.
MAX_KEYS = 100
MAX_TRIES = 5

#: Minimum seconds between two fetches: after a first fetch failed, and for keys that tokens name.
RETRY = 1.0
#: Number of fetches for unknown keys before the rate limit applies.
BURST = 4

#: Seconds for which cached keys are used while fetching fails.
MAX_AGE = 24 * 3600.0

#: Minimum length of an RSA key, in bits.
MIN_RSA = 2048


#: The required members of a public JSON Web Key, by key type. Other members, private ones included, are ignored.
MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}


class PublicKey(NamedTuple):
    """Public key of an issuer. ``algorithm`` is its ``alg`` member: if present, the key is for this algorithm only."""

    id: str | None
    algorithm: str | None
    curve: str | None
    key: RSAKey | ECKey | OKPKey


class IssuerKeys:
    """Cache of the public keys (JWKS) of one issuer.

    Keys are fetched on first use, after ``ttl`` seconds, and when a token names an unknown key. As clients can invent
    key identifiers, fetches for unknown keys are rate limited to one per ``pause`` seconds on average, with a burst of
    ``BURST``. Each fetch returns all keys, so new keys are found despite invented identifiers. If fetching fails, the
    cached keys are used for a day. ``changed`` is called when keys have been removed. ``clock`` is monotonic, in
    seconds.
    """

    def __init__(
        self, issuer: str, url: str | None, clock: Clock, changed: Callable[[], None], *, ttl: float, pause: float
    ) -> None:
        self._issuer = issuer
        self._given = url
        self._url = url
        self._clock = clock
        self._changed = changed
        self._ttl = ttl
        self._pause = pause
        self._keys: list[PublicKey] | None = None
        self._asked = float("-inf")
        self._searches = float(BURST)
        self._counted = float("-inf")
        self._fetched = float("-inf")
        self._problem = ""
        self._lock = asyncio.Lock()

    async def find(self, id: str | None, algorithm: str) -> list[PublicKey]:
        """Return the candidate keys for verifying a signature.

        Raises:
            Unverifiable: no keys could be fetched, or the cached keys are too old.
        """
        now = self._clock()
        old = now >= self._fetched + self._ttl
        if self._keys is None or (old and not self._lock.locked()):
            await self._refresh(now, RETRY if self._keys is None else self._pause)
        if self._keys is None or now > self._fetched + MAX_AGE:
            raise Unverifiable(self._problem)
        found = self._select(id, algorithm)
        if not found:
            await self._refresh(now, RETRY, search=True)
            found = self._select(id, algorithm)
        return found

    def _may_search(self) -> bool:
        """Take a token from the bucket for unknown-key fetches. Each ``pause`` adds one, up to ``BURST``."""
        now = self._clock()
        self._searches = min(BURST, self._searches + (now - self._counted) / self._pause)
        self._counted = now
        if self._searches < 1:
            return False
        self._searches -= 1
        return True

    def _select(self, id: str | None, algorithm: str) -> list[PublicKey]:
        kind, curve = ALGORITHMS[algorithm]
        wanted = SAME.get(algorithm, algorithm)
        found = [
            one
            for one in self._keys or ()
            if one.key.key_type == kind
            and (curve is None or one.curve == curve)
            and (id is None or one.id == id)
            and (one.algorithm is None or SAME.get(one.algorithm, one.algorithm) == wanted)
        ]
        return found[:MAX_TRIES]

    async def _refresh(self, now: float, pause: float, *, search: bool = False) -> None:
        """Fetch the keys, unless they were fetched within ``pause`` seconds, or while waiting for the lock.

        ``search``: the fetch is for an unknown key, which is rate limited.
        """
        if now < self._asked + pause:
            return
        async with self._lock:
            if self._asked <= now and (not search or self._may_search()):
                try:
                    await self._fetch()
                finally:
                    self._asked = self._clock()

    async def _fetch(self) -> None:
        try:
            async with Fetcher() as fetcher:
                if self._url is None:
                    self._url = await find_endpoint(self._issuer, "jwks_uri", fetcher)
                keys = read_keys(await fetcher.get(self._url))
        except Unverifiable as error:
            self._problem = str(error)
            self._url = self._given  # discover it again: the endpoint may have moved
            if self._keys is not None:
                log.warning("the keys of %s cannot be fetched again, the old ones stay: %s", self._issuer, error)
            return
        gone = {one.key.thumbprint() for one in self._keys or ()} - {one.key.thumbprint() for one in keys}
        self._keys, self._fetched = keys, self._clock()
        if gone:
            self._changed()


def read_keys(document: Mapping[str, Any]) -> list[PublicKey]:
    """Return the signature keys of a JSON Web Key Set; other keys are skipped.

    Raises:
        Unverifiable: the document is not a key set.
    """
    rows = document.get("keys")
    if not isinstance(rows, list):
        raise Unverifiable("the key set has no list of keys")
    found: list[PublicKey] = []
    for row in rows[:MAX_KEYS]:
        if isinstance(row, dict) and _text(row.get("kty")) in MEMBERS and _is_for_signatures(row):
            key = _read_key({name: row[name] for name in MEMBERS[row["kty"]] if name in row})
            if key is not None:
                found.append(PublicKey(_text(row.get("kid")), _text(row.get("alg")), _text(row.get("crv")), key))
    return found


def _is_for_signatures(row: Mapping[str, Any]) -> bool:
    operations = row.get("key_ops")
    return row.get("use", "sig") == "sig" and (not isinstance(operations, list) or "verify" in operations)


def _read_key(members: dict[str, Any]) -> RSAKey | ECKey | OKPKey | None:
    from joserfc.errors import JoseError, SecurityWarning
    from joserfc.jwk import JWKRegistry, OctKey, RSAKey

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # about short keys, which are rejected below
            key = JWKRegistry.import_key(members)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        log.warning("a key is not understood and left out: %s", type(error).__name__)
        return None
    if isinstance(key, RSAKey) and key.public_key.key_size < MIN_RSA:
        log.warning("an RSA key of %d bits is too short and left out", key.public_key.key_size)
        return None
    return None if isinstance(key, OctKey) else key


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
