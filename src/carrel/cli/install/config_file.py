"""Configuration files of client applications: reading, and atomic changes under a lock."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from carrel.errors import ConfigError
from carrel.regular_file import read_regular, replace_file

__all__ = ["change", "read"]

BACKUP_SUFFIX = ".before-carrel"


def read(file: Path) -> str:
    """Return the text of a configuration file; empty if it does not exist.

    Raises:
        ConfigError: the file is not a regular file, cannot be read, or is not UTF-8.
    """
    try:
        return read_regular(file).decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text, so it was not changed") from error


def change(file: Path, edit: Callable[[str], str]) -> Path | None:
    """Apply ``edit`` to the text of a file, and return the path of the backup, or None.

    The file is locked and read again before the edit, so that concurrent changes are not lost. The backup contains the
    text before the first change and is never overwritten.

    Raises:
        ConfigError: the file cannot be written, or ``edit`` raised the error.
    """
    file = Path(os.path.realpath(file))  # a symbolic link stays a link
    backup = file.with_name(file.name + BACKUP_SUFFIX)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file):
            before = read(file)
            after = edit(before)
            existed = file.exists()
            mode = file.stat().st_mode & 0o777 if existed else 0o600
            if existed and not os.path.lexists(backup):
                replace_file(backup, before.encode(), mode=mode)
            if after != before:
                replace_file(file, after.encode(), mode=mode)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
    return backup if os.path.lexists(backup) else None


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of ``file`` against other processes that use this function.

    The folder is locked, as the file itself is replaced; on Windows, which cannot lock folders, a lock file is used.
    """
    if sys.platform == "win32":
        import msvcrt

        descriptor = os.open(file.with_name(f".{file.name}.carrel-lock"), os.O_RDWR | os.O_CREAT)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # waits up to ten seconds, then raises OSError
            yield
        finally:
            os.close(descriptor)
    else:
        import fcntl

        descriptor = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
