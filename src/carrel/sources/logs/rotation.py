"""Rotated log files: which files are one log, by their names, and in which order.

``app.log`` is written to; ``app.log.1``, ``app.log.2.gz``, ``app.log-20250131.xz``, ``app.log.2025-01-31`` and
``app-2025-01-31.log`` came before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from carrel.sources.folder.position import Parts
from carrel.sources.folder.tree import TreeEntry

__all__ = ["COMPRESSIONS", "Rotated", "RotatedLog", "logs_of", "rotated"]

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")

NUMBER = re.compile(r"(.+)\.(\d{1,4})", re.ASCII | re.DOTALL)
DATE = r"(\d{4}-?[01]\d-?[0-3]\d(?:[-_T.]?[0-2]\d(?:[-_:]?[0-5]\d(?:[-_:]?[0-5]\d)?)?)?(?:[-.]\d{1,10})?)"
DATED = re.compile(rf"(.+)[-._]{DATE}", re.ASCII | re.DOTALL)
DATE_INSIDE = re.compile(rf"(.*?)[-._]?{DATE}(\.[A-Za-z]{{1,10}})", re.ASCII | re.DOTALL)


class Rotated(NamedTuple):
    """Name of a file taken apart: the log that it belongs to, its age, and how it is compressed.

    ``date`` is empty and ``number`` 0 for the file that is written to.
    """

    log: str
    date: str
    number: int
    compression: str

    @property
    def age(self) -> tuple[bool, list[int], int]:
        """Sort key, the newest first."""
        return (bool(self.date or self.number), [-int(digit) for digit in self.date], self.number)


def rotated(name: str) -> Rotated:
    """Take the name of a log file apart."""
    compression = next((end for end in COMPRESSIONS if name.endswith(end) and len(name) > len(end)), "")
    stem = name.removesuffix(compression)
    if (found := DATED.fullmatch(stem)) is not None:
        return Rotated(found[1], digits(found[2]), 0, compression)
    if (found := NUMBER.fullmatch(stem)) is not None:
        return Rotated(found[1], "", int(found[2]), compression)
    if (found := DATE_INSIDE.fullmatch(stem)) is not None and found[1]:
        return Rotated(found[1] + found[3], digits(found[2]), 0, compression)
    return Rotated(stem, "", 0, compression)


def digits(date: str) -> str:
    return "".join(filter(str.isdigit, date))


class RotatedLog(NamedTuple):
    """A log and its files, the newest first."""

    parts: Parts
    files: tuple[TreeEntry, ...]

    @property
    def path(self) -> str:
        """The path in its folder, without the endings of rotation."""
        return "/".join(self.parts)

    @property
    def modified(self) -> float:
        """When it was last written to, in seconds since 1970."""
        return max(file.info.st_mtime for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all of its files."""
        return sum(file.info.st_size for file in self.files)


def logs_of(files: Iterable[TreeEntry]) -> dict[str, RotatedLog]:
    """Return files as logs, by their paths. A compressed file is left out that is there uncompressed as well."""
    found: dict[Parts, list[tuple[Rotated, TreeEntry]]] = {}
    for file in files:
        name = rotated(file.parts[-1])
        found.setdefault((*file.parts[:-1], name.log), []).append((name, file))
    logs: dict[str, RotatedLog] = {}
    for parts, members in sorted(found.items()):
        members.sort(key=lambda member: (member[0].age, member[0].compression))
        kept: list[TreeEntry] = []
        last = None
        for name, file in members:
            if last is None or name.age != last.age or not name.compression:
                kept.append(file)
            last = name
        log = RotatedLog(parts, tuple(kept))
        logs[log.path] = log
    return logs
