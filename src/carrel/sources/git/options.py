"""Options of the git source."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.options import Count, DiskThreads, MaxFile, MaxScan, MaxWaiting, Size, ThreadsPerClient

__all__ = ["GitOptions"]


class GitOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a repository: its name, and how much git may do for one request."""

    repository: Annotated[
        str | None, Meta(description="the name of the repository in URIs (default: the name of its folder)")
    ] = None
    alternates: Annotated[
        bool, Meta(description="use objects of other repositories to which this repository refers (alternates, links)")
    ] = False
    max_size: MaxFile = 10 * 1024 * 1024
    max_scan: MaxScan = 256 * 1024 * 1024
    max_memory: Annotated[Size, Meta(description="the maximum memory of one git process (Linux only)")] = 1024**3
    max_seconds: Annotated[Count, Meta(description="the time limit of git for one request, in seconds")] = 10
    threads: DiskThreads = 8
    threads_per_client: ThreadsPerClient = 4
    documents: AsText = True
    image_locations: Locations = False
    max_waiting: MaxWaiting = 4096
