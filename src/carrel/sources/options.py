"""Types of the options of sources, for the fields of a source's options struct.

A source has its options in one frozen ``msgspec.Struct``. From its fields come the flags of ``carrel serve``, the keys
of a configuration file, and the tables of the documentation: the name, the type, the default, and the description in
``msgspec.Meta``. A struct with a ``Secret`` is a ``RedactedStruct``, whose repr hides it. Where a type has a ``title``
here, the command line reads and names its values accordingly.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from carrel.redaction import RedactedStruct, Secret

__all__ = [
    "Alias",
    "Count",
    "DiskThreads",
    "Exclude",
    "Folder",
    "FollowLinks",
    "Glob",
    "Globs",
    "MaxFile",
    "MaxScan",
    "MaxWaiting",
    "NoOptions",
    "RedactedStruct",
    "Seconds",
    "Secret",
    "Size",
    "ThreadsPerClient",
]

Size: TypeAlias = Annotated[int, Meta(ge=1, title="SIZE")]
"""Number of bytes; on the command line also 500KiB or 20MiB."""

Count: TypeAlias = Annotated[int, Meta(ge=1, title="N")]
"""Number from 1 up."""

Folder: TypeAlias = Annotated[str, Meta(title="FOLDER", extra={"path": True})]
"""Path of a folder; in a configuration file relative to that file."""

Glob: TypeAlias = Annotated[str, Meta(title="GLOB")]
"""Pattern of file names, as in .gitignore."""

Globs: TypeAlias = tuple[Glob, ...]
"""Patterns; on the command line the flag may be repeated."""

Seconds: TypeAlias = Annotated[float, Meta(gt=0, title="SECONDS")]
"""Duration in seconds, more than 0."""

# Options that several sources have.
Alias: TypeAlias = Annotated[
    str | None, Meta(description="the base of URIs: NAME, HOST/NAME or SCHEME://HOST/NAME (default: from the target)")
]
MaxScan: TypeAlias = Annotated[Size, Meta(description="the maximum number of bytes to scan for a line")]
MaxFile: TypeAlias = Annotated[
    Size, Meta(description="the largest file that can be read whole; larger files can be read in windows")
]
ThreadsPerClient: TypeAlias = Annotated[Count, Meta(description="the maximum number of these threads per client")]
DiskThreads: TypeAlias = Annotated[Count, Meta(description="the maximum number of threads that read the disk")]
MaxWaiting: TypeAlias = Annotated[
    Count, Meta(description="the maximum number of requests per client waiting for a thread")
]
FollowLinks: TypeAlias = Annotated[
    bool, Meta(description="follow symbolic links that lead out of the folder (default: exclude them)")
]
Exclude: TypeAlias = Annotated[Globs, Meta(description="exclude files and folders that match")]


class NoOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a source that has none."""
