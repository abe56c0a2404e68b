"""Problems with files that are shared, said in the log: each once, and not without end."""

from __future__ import annotations

import errno
import os

from carrel.log import Log
from carrel.sources.folder.sandbox import Excluded, Parts

__all__ = ["Notices", "check_exhausted"]

MAX_TOLD = 1000  # problems of one folder

# Files come and go, and what is refused by its kind is no problem of the file system.
EXPECTED = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG)
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

log = Log("carrel.sources")


def check_exhausted(error: OSError) -> None:
    """Raise an error again that says nothing about the file, but that the process can open no more.

    Raises:
        OSError: it is one of these.
    """
    if error.errno in EXHAUSTED:
        raise error


class Notices:
    """Warnings about what is under ``path``: each once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._told: set[tuple[Parts, str]] = set()

    def warn(self, parts: Parts, problem: str) -> None:
        """Say something about a file or directory, unless it was said before."""
        if (parts, problem) in self._told or len(self._told) > MAX_TOLD:
            return
        self._told.add((parts, problem))
        if len(self._told) > MAX_TOLD:
            log.warning("%s has more problems, which are not logged", shown(self._path))
        else:
            log.warning("%s %s", shown(os.path.join(self._path, *parts)), problem)  # noqa: PTH118

    def pass_over(self, parts: Parts, error: OSError) -> None:
        """Say that something is left out of an answer because it cannot be read, where that is not to be expected.

        Raises:
            OSError: the process can open no more files, so that everything would be left out.
        """
        check_exhausted(error)
        if not isinstance(error, Excluded) and error.errno not in EXPECTED:
            self.warn(parts, f"cannot be read and is left out: {error.strerror}")

    def forget(self) -> None:
        """Begin anew."""
        self._told.clear()


def shown(path: str) -> str:
    """Return a path as text for the log, in one line."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text if text.isprintable() else ascii(text)
