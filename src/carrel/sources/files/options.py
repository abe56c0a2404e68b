"""Options of the files source."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.folder.options import FolderOptions
from carrel.sources.options import DiskThreads, Globs, MaxFile, MaxScan, MaxWaiting, ThreadsPerClient

__all__ = ["FilesOptions"]


class FilesOptions(FolderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a folder: which files are shared, the limits of one read, and the number of threads."""

    include: Annotated[Globs, Meta(description="share only files that match, for example '*.md' or 'docs/**'")] = ()
    title: Annotated[str | None, Meta(description="the name in lists (default: its own)")] = None
    max_size: MaxFile = 10 * 1024 * 1024
    max_scan: MaxScan = 256 * 1024 * 1024
    threads: DiskThreads = 8
    threads_per_client: ThreadsPerClient = 4
    documents: AsText = True
    image_locations: Locations = False
    max_waiting: MaxWaiting = 4096
