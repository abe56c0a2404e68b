"""Timestamps of configuration files, for detecting changes on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

__all__ = ["FileTimestamp", "timestamps_of"]

FileTimestamp: TypeAlias = tuple[int, int, int] | None


def timestamps_of(files: Iterable[Path]) -> list[FileTimestamp]:
    """Return the modification time, size and inode of each file, or None for a missing file."""
    return [_timestamp_of(file) for file in files]


def _timestamp_of(file: Path) -> FileTimestamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
