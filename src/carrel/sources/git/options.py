"""Options of the git source."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.options import Count, Size

__all__ = ["GitOptions"]

MAX_SIZE = 10 * 1024 * 1024
MAX_SCAN = 256 * 1024 * 1024
MAX_MEMORY = 1024 * 1024 * 1024


class GitOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a repository: its name, and how much git may do for one request."""

    repository: Annotated[
        str | None, Meta(description="the name of the repository in URIs (default: that of its folder)")
    ] = None
    alternates: Annotated[
        bool, Meta(description="use objects of other repositories that this one refers to (alternates, links)")
    ] = False
    max_size: Annotated[
        Size, Meta(description="the largest file that is read whole; of larger ones, windows can be read")
    ] = MAX_SIZE
    max_scan: Annotated[Size, Meta(description="the most that is looked through to find a line")] = MAX_SCAN
    max_memory: Annotated[Size, Meta(description="the most memory of one git process (on Linux)")] = MAX_MEMORY
    max_seconds: Annotated[Count, Meta(description="the most seconds that git works on one request")] = 10
    threads: Annotated[Count, Meta(description="the most threads that read the disk")] = 8
    threads_per_client: Annotated[Count, Meta(description="the most of them for one client")] = 4
    documents: AsText = True
    image_locations: Locations = False
    max_waiting: Annotated[Count, Meta(description="the most requests of one client that wait for a thread")] = 4096
