"""Imports of optional packages: if one is missing, the error names the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from carrel.errors import ConfigError
from carrel.extras import PACKAGES

__all__ = ["needed"]


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Context manager for the imports of packages that an extra installs; ``what`` needs them.

    Raises:
        ConfigError: a package is missing.
    """
    try:
        yield
    except ImportError as error:
        package = PACKAGES.get(error.name or "", error.name)
        raise ConfigError(f"{what} need the package {package}: pip install 'carrel[{extra}]'") from None
