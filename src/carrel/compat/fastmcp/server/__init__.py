"""Servers."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "Context": "context",
    "FastMCP": "server",
    **{module: module for module in ("context", "dependencies", "elicitation", "lifespan", "middleware", "server")},
}
INSTEAD = {"create_proxy": "use carrel.Server and add_provider(RemoteProvider(url)) (docs/providers.md)"}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES, INSTEAD)
