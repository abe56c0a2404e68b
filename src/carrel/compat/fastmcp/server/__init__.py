"""Servers."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "Context": "context",
    "FastMCP": "server",
    "create_proxy": "server",
    **{
        module: module
        for module in ("context", "dependencies", "elicitation", "lifespan", "middleware", "proxy", "server")
    },
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
