"""Options of the files source."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.folder.options import FolderOptions
from carrel.sources.options import Count, Globs, Size

__all__ = ["FilesOptions"]

MAX_SIZE = 10 * 1024 * 1024
MAX_SCAN = 256 * 1024 * 1024


class FilesOptions(FolderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a folder: which files are shared, the limits of one read, and the number of threads."""

    include: Annotated[Globs, Meta(description="share only files that match, for example '*.md' or 'docs/**'")] = ()
    title: Annotated[str | None, Meta(description="the name in lists (default: its own)")] = None
    max_size: Annotated[
        Size, Meta(description="the largest file that is read whole; of larger ones, windows can be read")
    ] = MAX_SIZE
    max_scan: Annotated[Size, Meta(description="the most that is looked through to find a line")] = MAX_SCAN
    threads: Annotated[Count, Meta(description="the most threads that read the disk")] = 8
    threads_per_client: Annotated[Count, Meta(description="the most of them for one client")] = 4
    documents: AsText = True
    image_locations: Locations = False
    max_waiting: Annotated[Count, Meta(description="the most requests of one client that wait for a thread")] = 4096
