"""Cache of fetched pages in memory, bounded by size, with the validators of conditional requests (RFC 9111)."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

__all__ = ["MAX_FRESH", "Cached", "PageCache", "fresh_for", "is_storable"]

#: Upper limit of max-age: seconds for which a page may be used without revalidation.
MAX_FRESH = 24 * 3600.0
#: Overhead of a cache entry, in bytes.
OVERHEAD = 1024
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})")


class Cached(msgspec.Struct):
    """Fetched response: its final URL, its type, charset and body.

    ``fresh_until`` is a time of the event loop's clock; ``validators`` are the headers of the next conditional request.
    ``markdown`` is the cached result of the conversion to Markdown.
    """

    url: str
    kind: str
    charset: str
    data: bytes
    fresh_until: float
    validators: dict[str, str]
    modified: str | None
    digest: bytes = b""
    markdown: str | None = None
    storable: bool = True
    """Whether the page may be stored on disk: see ``is_storable``."""

    def __post_init__(self) -> None:
        self.digest = hashlib.blake2b(self.data, digest_size=16).digest()

    @property
    def size(self) -> int:
        """Size in memory, in bytes."""
        return OVERHEAD + len(self.data) + len(self.markdown or "") * 2


class PageCache:
    """Least recently used cache of up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pages: OrderedDict[str, Cached] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self.size = 0

    def get(self, url: str) -> Cached | None:
        """Return the cached response of a URL, fresh or stale."""
        found = self._pages.get(url)
        if found is not None:
            self._pages.move_to_end(url)
        return found

    def put(self, url: str, page: Cached) -> None:
        """Cache a response, and evict the least recently used responses. Call it again when the size changes.

        A response that is larger than the whole cache is not stored.
        """
        self.drop(url)
        size = page.size
        if size > self._limit:
            return
        self._pages[url], self._sizes[url] = page, size
        self.size += size
        while self.size > self._limit:
            self.drop(next(iter(self._pages)))

    def drop(self, url: str) -> None:
        """Remove the response of a URL from the cache."""
        if self._pages.pop(url, None) is not None:
            self.size -= self._sizes.pop(url)


def is_storable(headers: Mapping[str, str]) -> bool:
    """Return whether a response may be stored on disk, in a cache for all clients.

    https://www.rfc-editor.org/rfc/rfc9111#section-3
    """
    control = headers.get("Cache-Control", "").lower()
    return "no-store" not in control and "private" not in control and headers.get("Vary", "").strip() != "*"


def fresh_for(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the number of seconds for which a response may be used without revalidation.

    https://www.rfc-editor.org/rfc/rfc9111#section-5.2.2
    """
    control = headers.get("Cache-Control", "").lower()
    if "no-store" in control or "no-cache" in control:
        return 0.0
    age = _MAX_AGE.search(control)
    return otherwise if age is None else min(float(age[1]), MAX_FRESH)
