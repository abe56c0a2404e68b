"""Generation of ``fastmcp`` whose behaviour the face has: the installed one, or the newest one that is mirrored."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["NEWEST", "generation", "installed_version"]

NEWEST = "4.1.2"


@cache
def installed_version() -> str:
    """Return the version of the installed package, whose code is not loaded; the newest mirrored one without any."""
    for package in ("fastmcp-slim", "fastmcp"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return NEWEST


def generation() -> int:
    """Return the major version of ``fastmcp`` that programs are written for: 3 or 4."""
    major = installed_version().partition(".")[0]
    return 3 if major in ("2", "3") else 4
