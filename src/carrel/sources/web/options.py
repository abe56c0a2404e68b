"""Options of the web source."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.options import Count, Folder, Seconds, Size

__all__ = ["Host", "WebOptions"]

Host: TypeAlias = Annotated[str, Meta(title="HOST")]
"""Host name or IP address."""


class WebOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of web pages: allowed hosts, limits on fetching and caching, and intervals."""

    title: Annotated[str | None, Meta(description="the name of the first page in lists (default: its own)")] = None
    private_hosts: Annotated[
        tuple[Host, ...], Meta(description="a host that may be outside the public Internet, for intranets")
    ] = ()
    redirect_hosts: Annotated[
        tuple[Host, ...], Meta(description="a host on which redirects may lead anywhere (default: only shared pages)")
    ] = ()
    robots: Annotated[bool, Meta(description="follow robots.txt", extra={"off": "fetch what robots.txt disallows"})] = (
        True
    )
    sitemap: Annotated[
        bool,
        Meta(description="list the pages of sitemap.xml", extra={"off": "list the links of the page, not sitemap.xml"}),
    ] = True
    max_pages: Annotated[Count, Meta(description="the maximum number of pages in a list")] = 5000
    max_page_size: Annotated[Size, Meta(description="the maximum size of a response")] = 4 * 1024 * 1024
    documents: AsText = True
    image_locations: Locations = False
    cache_size: Annotated[Size, Meta(description="memory for cached responses")] = 64 * 1024 * 1024
    cache_folder: Annotated[Folder | None, Meta(description="a folder that caches pages across restarts")] = None
    cache_folder_size: Annotated[Size, Meta(description="the maximum size of that folder")] = 256 * 1024 * 1024
    cache_seconds: Annotated[Seconds, Meta(description="how long a page without Cache-Control is cached")] = 60.0
    fetch_timeout: Annotated[Seconds, Meta(description="the time limit for a fetch, including redirects")] = 30.0
    fetch_delay: Annotated[Seconds, Meta(description="the minimum interval between two requests to one host")] = 0.1
    poll_seconds: Annotated[
        Seconds, Meta(description="the interval between two polls of subscribed pages and lists")
    ] = 300.0
