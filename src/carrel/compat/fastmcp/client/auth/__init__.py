"""Authentication of clients: bearer tokens, and OAuth in a browser."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {"BearerAuth": "bearer", "OAuth": "oauth"}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
