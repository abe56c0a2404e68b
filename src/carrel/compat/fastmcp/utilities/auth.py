"""Scopes of settings, and the parts of JSON Web Tokens without verification."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any

__all__ = ["decode_jwt_header", "decode_jwt_payload", "parse_scopes"]


def _part(token: str, index: int) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("Invalid JWT format (expected 3 parts)")
    try:
        found: dict[str, Any] = json.loads(urlsafe_b64decode(parts[index] + "=" * (-len(parts[index]) % 4)))
    except RecursionError:
        raise ValueError("Invalid JWT: its JSON is nested too deep") from None
    return found


def decode_jwt_header(token: str) -> dict[str, Any]:
    """Return the header of a JWT, which is not verified.

    Raises:
        ValueError: the token is no JWT.
    """
    return _part(token, 0)


def decode_jwt_payload(token: str) -> dict[str, Any]:
    """Return the claims of a JWT, which is not verified.

    Raises:
        ValueError: the token is no JWT.
    """
    return _part(token, 1)


def parse_scopes(value: Any) -> list[str] | None:
    """Return scopes: of a list, of a JSON array, or of text with spaces or commas; None for None."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            pass
    if isinstance(value, str):
        return value.replace(",", " ").split()
    if isinstance(value, list):
        return [text for each in value if (text := str(each).strip())]
    found: list[str] | None = value
    return found
