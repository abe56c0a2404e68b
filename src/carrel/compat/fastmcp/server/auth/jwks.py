"""Public keys of an issuer (JWKS) as PEM, with a cache."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from carrel.compat.fastmcp.http_library import httpx
from carrel.log import Log

__all__ = ["KeySet"]

log = Log("carrel.compat")

#: Seconds for which keys are cached.
LIFETIME = 3600
NO_ID = "_default"


class KeySet:
    """Keys by id. They are fetched again when they are old, and when a token names another key.

    ``interval`` is the minimum number of seconds between two fetches, as clients can invent ids of keys.

    Raises:
        ValueError: the interval is negative or not finite.
    """

    def __init__(self, fetch: Callable[[], Awaitable[dict[str, Any]]], interval: float) -> None:
        if not math.isfinite(interval) or interval < 0:
            raise ValueError("jwks_refresh_interval must be finite and non-negative")
        self._fetch = fetch
        self._interval = interval
        self._keys: dict[str, str] = {}
        self._unusable: set[str] = set()
        self._fetched = -math.inf
        self._tried = -math.inf
        self._lock = anyio.Lock()

    def _find(self, id: str | None) -> str | None:
        """Return a key; without an id, the only key."""
        if id:
            return self._keys.get(id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def get(self, id: str | None) -> str:
        """Return the key of a token.

        Raises:
            ValueError: there is no such key, or the keys cannot be fetched.
        """
        if time.monotonic() - self._fetched < LIFETIME and (found := self._find(id)):
            return found
        async with self._lock:
            now = time.monotonic()
            if now - self._fetched < LIFETIME and (found := self._find(id)):
                return found
            if now - self._tried < self._interval:
                raise ValueError("No matching fresh JWKS key; refresh available shortly")
            self._tried = now
            await self._refresh()
            found = self._find(id)
        if found is None:
            raise ValueError(self._reason(id))
        return found

    def _reason(self, id: str | None) -> str:
        if id:
            kind = "found in JWKS but its key type is unsupported" if id in self._unusable else "not found in JWKS"
            return f"Key ID '{id}' {kind}"
        return "Multiple keys in JWKS but no key ID (kid) in token" if self._keys else "No keys found in JWKS"

    async def _refresh(self) -> None:
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key

        try:
            document = await self._fetch()
            rows = document.get("keys", [])
        except (httpx.HTTPError, json.JSONDecodeError, AttributeError) as error:
            raise ValueError(f"Failed to fetch JWKS: {error}") from error
        keys: dict[str, str] = {}
        self._unusable = set()
        for row in rows:
            id = row.get("kid") if isinstance(row, dict) else None
            try:
                if row["kty"] not in ("RSA", "EC"):
                    raise ValueError(f"keys of type {row['kty']} are not supported")
                keys[id or NO_ID] = import_key(row, row["kty"]).as_pem(private=False).decode()
            except (JoseError, TypeError, KeyError, ValueError) as error:
                log.debug("a key is left out: %s", error)
                self._unusable |= {id} if isinstance(id, str) else set()
        self._keys, self._fetched = keys, time.monotonic()
