"""Identifiers of protocol extensions."""

from __future__ import annotations

from typing import Any

from carrel.errors import ConfigError
from carrel.protocol.extension import Extension

__all__ = ["validate_extension_identifier"]


def validate_extension_identifier(identifier: Any, *, owner: str) -> None:
    """Check that an identifier is a name with a prefix, such as "com.example/search".

    Raises:
        TypeError: it is not.
    """
    try:
        if not isinstance(identifier, str):
            raise ConfigError("no text")
        Extension(name=identifier)
    except (ConfigError, IndexError):
        raise TypeError(
            f"{owner}.identifier must be a `vendor-prefix/name` string "
            f"(reverse-DNS prefix required), got {identifier!r}"
        ) from None
