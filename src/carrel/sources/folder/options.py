"""Options of sources that share folders.

This module is imported for the help of the command line, so it must import quickly.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from carrel.sources.options import Exclude, FollowLinks

__all__ = ["FolderOptions"]


class FolderOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a folder is shared."""

    exclude: Exclude = ()
    hidden: Annotated[bool, Meta(description="share files and folders whose name begins with a dot")] = False
    follow_symlinks: FollowLinks = False
    gitignore: Annotated[
        bool,
        Meta(
            description="exclude files that .gitignore excludes",
            extra={"off": "share files that .gitignore excludes"},
        ),
    ] = True
