"""Fetched pages in memory, with the validators of conditional requests (RFC 9111)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

__all__ = ["MAX_FRESH", "Cached", "fresh_for", "is_storable"]

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
