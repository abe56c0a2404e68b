"""Locations of logs: a folder of log files, or the journal of systemd."""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH206, PTH100, PTH111, PTH112, PTH118, PTH119

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.sources.folder.notices import Notices, check_exhausted
from carrel.sources.folder.options import FolderOptions
from carrel.sources.folder.position import START
from carrel.sources.folder.shared import SharedFolder
from carrel.sources.folder.tree import TreeEntry
from carrel.sources.logs.entries import LogEntry
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.part import NotText, ReadOptions, entries_of
from carrel.sources.logs.rotation import COMPRESSIONS, RotatedLog, logs_of
from carrel.threads import stop_if_cancelled

__all__ = ["LogFolder", "LogInfo", "LogLocation", "split_glob"]

MAX_FILES = 10_000
PAGE = 1000

log = Log("carrel")

#: Files of a folder that is given without a pattern.
USUAL = ("*.log", "*.jsonl", "*.out", "*.err", "syslog", "messages", "*_log")


class LogInfo(NamedTuple):
    """A log in lists: when it was last written to (seconds since 1970; None: not known), its size, its files."""

    modified: float | None = None
    size: int | None = None
    files: int = 1


class LogLocation(Protocol):
    """A location of logs. Its methods block, and are thread-safe."""

    name: str

    def inspect(self) -> None:
        """Check that the location exists.

        Raises:
            ConfigError: the location does not exist, or cannot be read.
        """

    def logs(self) -> Mapping[str, LogInfo]:
        """Return the logs by their paths, in order."""

    def entries(self, log: str, reading: ReadOptions, note: Callable[[str], None]) -> Iterator[LogEntry]:
        """Yield the accepted entries of a log, the newest first; ``note`` is called with read errors."""

    def forget(self) -> None:
        """Clear the caches."""


class LogFolder:
    """Log files given by a path with ``*``, ``?`` and ``[…]`` in it, by a folder, or by the path of one log.

    Rotated files belong to the log that they were rotated from, and are shared with it.
    """

    def __init__(self, target: str, options: LogsOptions) -> None:
        self._target = os.path.abspath(os.path.expanduser(target))
        folder, pattern = split_glob(self._target)
        patterns = (f"/{pattern}",) if pattern else USUAL
        self.name = options.log_name or os.path.basename(folder) or "logs"
        self._format = options.line_format
        shared = FolderOptions(exclude=options.exclude, follow_symlinks=options.follow_symlinks, gitignore=False)
        self.folder = SharedFolder(folder, shared, [each + end for each in patterns for end in every_ending(each)])
        self.notices = Notices(self.folder.path)

    def inspect(self) -> None:
        self.folder.inspect()
        if self.folder.is_file:
            raise ConfigError(f"{self.folder.path} is not a folder")
        entries, then = self.folder.tree.page(START, PAGE)
        if then is None and all(entry.is_directory for entry in entries):
            log.warning("logs: there is no %s yet", self._target)

    def logs(self) -> Mapping[str, LogInfo]:
        return {path: LogInfo(log.modified, log.size, len(log.files)) for path, log in self._logs().items()}

    def _logs(self) -> dict[str, RotatedLog]:
        found: list[TreeEntry] = []
        position = START
        while len(found) < MAX_FILES:
            stop_if_cancelled()
            entries, then = self.folder.tree.page(position, PAGE)
            found += [entry for entry in entries if not entry.is_directory]
            if then is None:
                break
            position = then
        return logs_of(found)

    def entries(self, log: str, reading: ReadOptions, note: Callable[[str], None]) -> Iterator[LogEntry]:
        """Yield the accepted entries of a log, the newest first.

        A file is skipped if it was last written before the range, or if its neighbour shows that it begins after the
        range.
        """
        found = self._logs().get(log)
        files = () if found is None else found.files
        seen: set[tuple[int, int]] = set()
        for index, file in enumerate(files):
            info = file.info
            if info.st_size == 0 or info.st_mtime < reading.since or (info.st_dev, info.st_ino) in seen:
                continue
            if index + 1 < len(files) and files[index + 1].info.st_mtime > reading.until + reading.margin:
                continue
            if info.st_ino:
                seen.add((info.st_dev, info.st_ino))
            if reading.budget.is_over():
                return
            try:
                yield from entries_of(self.folder.tree, file, reading, partial(note_about, note, file.parts[-1]))
            except NotText as error:
                note(f"{file.parts[-1]} is left out: {error}")
            except OSError as error:
                check_exhausted(error)
                note(f"{file.parts[-1]} is left out: {error.strerror or type(error).__name__}")
            except ConfigError as error:
                note(f"{file.parts[-1]} is left out: {error}")

    def forget(self) -> None:
        self.folder.forget()


def note_about(note: Callable[[str], None], name: str, text: str) -> None:
    """Note something about a file."""
    note(f"{name}: {text}")


def every_ending(pattern: str) -> list[str]:
    """Return the suffixes that rotation may append to a file name, as patterns."""
    return [""] if pattern.endswith((*COMPRESSIONS, "*")) else ["", ".[0-9]*", "-[0-9]*", "_[0-9]*", *COMPRESSIONS]


def split_glob(path: str) -> tuple[str, str]:
    """Return the folder of a path, and the pattern below it; no pattern for a folder.

    The path of one file becomes a pattern that matches its name.
    """
    names = path.split(os.sep)
    first = next((index for index, name in enumerate(names) if any(mark in name for mark in "*?[")), None)
    if first is not None and not os.path.lexists(path):
        return os.sep.join(names[:first]) or os.sep, "/".join(names[first:])
    if os.path.isdir(path):
        return path, ""
    folder, name = os.path.split(path)
    return folder, "".join(f"\\{character}" if character in "*?[]\\! " else character for character in name)
