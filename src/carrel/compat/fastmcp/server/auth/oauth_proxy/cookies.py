"""Signed cookies of the OAuth proxy, with which a browser proves that its user consented."""

from __future__ import annotations

import binascii
import hmac
import json
from base64 import b64decode, b64encode
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["SignedCookies"]


class SignedCookies:
    """Cookies with JSON values, signed with a key. Over https they belong to the host alone."""

    def __init__(self, key: bytes, *, secure: bool) -> None:
        self._key = key
        self._secure = secure

    def _name(self, name: str) -> str:
        return f"__Host-{name}" if self._secure else f"__{name}"

    def _signature(self, payload: str) -> str:
        return b64encode(hmac.digest(self._key, payload.encode(), "sha256")).decode()

    def sign(self, payload: str) -> str:
        """Return a payload with its signature."""
        return f"{payload}.{self._signature(payload)}"

    def verify(self, value: str) -> str | None:
        """Return the payload of a signed value, or None."""
        payload, _, signature = value.rpartition(".")
        expected = self._signature(payload)
        return payload if payload and hmac.compare_digest(expected.encode(), signature.encode()) else None

    def read(self, request: Request, name: str) -> Any:
        """Return the value of a cookie, or None without a valid one."""
        payload = self.verify(request.cookies.get(self._name(name), ""))
        try:
            return None if payload is None else json.loads(b64decode(payload))
        except (ValueError, binascii.Error):
            return None

    def write(self, response: Response, name: str, value: Any, max_age: int) -> None:
        """Set a cookie for ``max_age`` seconds; an empty value deletes it."""
        payload = b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()
        response.set_cookie(
            self._name(name),
            self.sign(payload) if value else "",
            max_age=max_age if value else 0,
            secure=self._secure,
            httponly=True,
            samesite="lax",
            path="/",
        )
