"""Paths of a file system that ignores case and Unicode normalization, as those of Windows and macOS do."""

from __future__ import annotations

import os
from unicodedata import normalize

__all__ = ["folded"]


def folded(path: str, root: str) -> str:
    """Return the path of the file that a path below a folder means there; itself if there is none."""
    found = root
    for part in os.path.relpath(path, root).split(os.sep):
        names = sorted(os.listdir(found)) if os.path.isdir(found) else []
        alike = [name for name in names if key(name) == key(part)]
        found = os.path.join(found, part if part in alike or not alike else alike[0])
    return os.path.normpath(found)


def key(name: str) -> str:
    return normalize("NFC", name).casefold()
