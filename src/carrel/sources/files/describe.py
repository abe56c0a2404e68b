"""What a file or a directory is said to be when it is listed."""

from __future__ import annotations

import os
import time
from stat import S_ISDIR

from msgspec import UNSET, UnsetType

from carrel.sources.content.media_types import DIRECTORY, type_of_name
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

__all__ = ["describe", "display"]


def describe(uri: str, name: str, info: os.stat_result, *, shown: str | None = None) -> Resource:
    """Return the resource of a file or a directory; ``shown`` is what it is called, if not by its own name."""
    is_directory = S_ISDIR(info.st_mode)
    return Resource(
        uri,
        display(name) if shown is None else shown,
        mime_type=DIRECTORY if is_directory else type_of_name(name) or UNSET,
        size=UNSET if is_directory else info.st_size,
        annotations=annotate(info.st_mtime),
    )


def display(name: str) -> str:
    """Return a name as text that can be shown and sent, whatever its bytes are."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def annotate(modified: float) -> Annotations | UnsetType:
    """Return the time of the last change, in seconds since 1970, as an annotation."""
    try:
        year, month, day, hour, minute, second, *_ = time.gmtime(modified)
    except (OverflowError, ValueError, OSError):
        return UNSET
    if not 0 <= year <= 9999:
        return UNSET
    return Annotations(last_modified=f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
