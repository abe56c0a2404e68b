"""Resource descriptions of files and directories: name, MIME type, size, time of last modification."""

from __future__ import annotations

import os
import time
from stat import S_ISDIR

from carrel.media_types import DIRECTORY, type_of_name
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

__all__ = ["annotate", "describe", "display", "timestamp"]


def describe(uri: str, name: str, info: os.stat_result, *, shown: str | None = None, whole: bool = True) -> Resource:
    """Return the ``Resource`` for a file or a directory; ``shown`` overrides its displayed name.

    A directory has a modification time only if the ``whole`` directory is visible to the caller. Otherwise, the time
    would reveal hidden changes.
    """
    is_directory = S_ISDIR(info.st_mode)
    return Resource(
        uri,
        display(name) if shown is None else shown,
        mime_type=DIRECTORY if is_directory else type_of_name(name),
        size=None if is_directory else info.st_size,
        annotations=annotate(info.st_mtime) if whole or not is_directory else None,
    )


def display(name: str) -> str:
    """Return a file name as valid Unicode, with bytes that are not UTF-8 replaced."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def annotate(modified: float) -> Annotations | None:
    """Return a modification time, in seconds since 1970, as a ``lastModified`` annotation; None if out of range."""
    found = timestamp(modified)
    return None if found is None else Annotations(last_modified=found)


def timestamp(seconds: float) -> str | None:
    """Return seconds since 1970 as a timestamp in UTC; None if out of range."""
    try:
        year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z" if 0 <= year <= 9999 else None
