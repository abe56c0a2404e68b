"""Log warnings about shared files: each warning once, and up to a limit."""

from __future__ import annotations

import errno
import os

from carrel.log import Log
from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import Excluded

__all__ = ["Notices", "check_exhausted"]

MAX_LOGGED = 1000  # problems of one folder

# Files come and go, and a file rejected for its kind is not a file system problem.
EXPECTED = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG)
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

log = Log("carrel.sources")


def check_exhausted(error: OSError) -> None:
    """Re-raise an error that means the process or the system is out of file descriptors or memory.

    Raises:
        OSError: the error means that resources are exhausted.
    """
    if error.errno in EXHAUSTED:
        raise error


class Notices:
    """Warnings about files under ``path``, each logged once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._logged: set[tuple[Parts, str]] = set()

    def warn(self, parts: Parts, problem: str) -> None:
        """Log a problem with a file or directory, unless it has been logged before."""
        if (parts, problem) in self._logged or len(self._logged) > MAX_LOGGED:
            return
        self._logged.add((parts, problem))
        if len(self._logged) > MAX_LOGGED:
            log.warning("%s has more problems, which are not logged", shown(self._path))
        else:
            log.warning("%s %s", shown(os.path.join(self._path, *parts)), problem)  # noqa: PTH118

    def pass_over(self, parts: Parts, error: OSError) -> None:
        """Log that an unreadable entry is left out of a result, unless the error is an expected one.

        Raises:
            OSError: the process can open no more files, so that all entries would be left out.
        """
        check_exhausted(error)
        if not isinstance(error, Excluded) and error.errno not in EXPECTED:
            self.warn(parts, f"cannot be read and is left out: {error.strerror}")

    def forget(self) -> None:
        """Clear the record of logged warnings."""
        self._logged.clear()


def shown(path: str) -> str:
    """Return a path as printable text on one line, for the log."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text if text.isprintable() else ascii(text)
