"""Registry of resource sources, by URL scheme.

A source is imported only when it is opened. All of them implement ``carrel.server.source.Source``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.server.source import Source

__all__ = ["open", "schemes"]

REGISTRY = {
    "file": ("carrel.sources.files.source", "open_files"),
}
"""URL scheme -> module, and the factory function in it that takes the URL."""


def open(target: str | os.PathLike[str]) -> Source:
    """Return the source for a path or a URL, not started yet.

    Raises:
        ConfigError: there is no source for such URLs.
    """
    target = os.fspath(target)
    scheme = scheme_of(target)
    found = REGISTRY.get(scheme)
    if found is None:
        known = ", ".join(f"{name}:" for name in REGISTRY)
        raise ConfigError(
            f"There is no source for {scheme}: URLs; there are paths, and URLs that begin with {known} "
            f"(a path with a colon in it can be written ./{target})"
        )
    from importlib import import_module  # deferred import

    module, function = found
    source: Source = getattr(import_module(module), function)(target)
    return source


def schemes() -> list[str]:
    """Return the URL schemes that have a source."""
    return list(REGISTRY)


def scheme_of(target: str) -> str:
    """Return the scheme of a URL in lower case; ``file`` for a path."""
    scheme, colon, _ = target.partition(":")
    letters = scheme.replace("+", "").replace("-", "").replace(".", "")
    if not colon or not letters.isalnum() or not letters.isascii() or not scheme[0].isalpha():
        return "file"
    # One letter is a Windows drive.
    return "file" if len(scheme) == 1 or os.path.lexists(target) else scheme.lower()
