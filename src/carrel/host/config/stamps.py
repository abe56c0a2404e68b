"""Stamps of configuration files, for detecting changes on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

__all__ = ["Stamp", "stamps_of"]

Stamp: TypeAlias = tuple[int, int, int] | None


def stamps_of(files: Iterable[Path]) -> list[Stamp]:
    """Return the modification time, size and inode of each file, or None for a missing file."""
    return [_stamp_of(file) for file in files]


def _stamp_of(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
