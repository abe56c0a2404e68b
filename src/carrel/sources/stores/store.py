"""Store: the interface of an object store, a remote file system or an archive, all of them read only.

A key is a path without a leading slash, ``docs/a.md``. A key that ends with a slash is a directory: a common prefix of
keys, or a real directory. Lists are in the order of the code points of keys, where directories count with their slash,
so that a list at all depths, and the lists of one level after another, have the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from typing import NamedTuple

from carrel.errors import MCPError

__all__ = [
    "MAX_KEY",
    "AccessDenied",
    "EntryPage",
    "GetOptions",
    "GetResult",
    "InvalidStore",
    "ListingIndex",
    "ObjectNotFound",
    "ObjectNotModified",
    "ObjectTooLarge",
    "Store",
    "StoreEntry",
    "StoreError",
    "Unreadable",
    "VersionChanged",
    "is_shareable",
]

MAX_DEPTH = 100
MAX_KEY = 4096  # characters; S3 has 1,024 bytes, paths 4,096


class StoreError(MCPError):
    """The store cannot be reached, or answered with an error. The message is for the log of the operator."""


class InvalidStore(StoreError):
    """The address, the options or the file of the store is wrong. The message gives the reason."""


class ObjectNotFound(StoreError):
    """There is no such object or directory."""


class AccessDenied(StoreError):
    """The object may not be read."""


class Unreadable(StoreError):
    """The object or directory cannot be read. The message gives the reason, and is sent to clients."""


class ObjectNotModified(StoreError):
    """The object still has the version that is known."""


class VersionChanged(StoreError):
    """The object no longer has the requested version."""


class ObjectTooLarge(StoreError):
    """The object has ``size`` bytes, which is more than were allowed."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the object has {size:,} bytes")
        self.size = size


class StoreEntry(NamedTuple):
    """Object or directory. ``version`` differs when the contents do; ``modified`` is in seconds since 1970."""

    key: str
    size: int | None = None
    modified: float | None = None
    version: str | None = None

    @property
    def is_directory(self) -> bool:
        return self.key.endswith("/")

    @property
    def fingerprint(self) -> Hashable:
        """The version, or the size and time if the object has no version."""
        return self.version or (self.size, self.modified)

    @property
    def name(self) -> str:
        return self.key.rstrip("/").rpartition("/")[2]


class EntryPage(NamedTuple):
    """Page of a list. ``after`` is the key after which the next page begins, or None on the last page. A page may be
    empty.
    """

    entries: Sequence[StoreEntry]
    after: str | None = None

    def check(self, after: str) -> EntryPage:
        """Return the page, which was requested after the key ``after``.

        Raises:
            StoreError: the next page would begin at this key or before it, so that the list has no end.
        """
        if self.after is not None and self.after <= after:
            raise StoreError(f"its list has no end: after {after[:200]!r}, the server lists {self.after[:200]!r} again")
        return self


class GetOptions(NamedTuple):
    """Object that is wanted whole, if it has at most ``limit`` bytes; or as many of its bytes from offset ``first``.

    ``match`` is the version that it must have. If it has the version ``unless``, nothing is transferred.
    """

    limit: int
    first: int | None = None
    match: str | None = None
    unless: str | None = None

    def check(self, entry: StoreEntry) -> bool:
        """Return whether the bytes of an object have to be transferred, given its entry.

        Raises:
            VersionChanged: the object does not have the version ``match``.
            ObjectTooLarge: the whole object is wanted, and is too large.
        """
        if self.match is not None and self.match != entry.version:
            raise VersionChanged(entry.key)
        if self.unless is not None and self.unless == entry.version:
            return False
        if self.first is None and (entry.size or 0) > self.limit:
            raise ObjectTooLarge(entry.size or 0)
        return True

    @property
    def range(self) -> str | None:
        """The Range header of a request over HTTP."""
        return None if self.first is None else f"bytes={self.first}-{self.first + self.limit - 1}"

    def skip(self, status: int, content_range: str) -> int:
        """Return the number of bytes to skip at the start of an HTTP response body.

        A server need not support ranges.

        Raises:
            StoreError: the server sent another range.
        """
        if status != 206:
            return self.first or 0
        if self.first is None or not content_range.startswith(f"bytes {self.first}-"):
            raise StoreError(f"the request was for {self.range}, and the server answered with {content_range[:100]!r}")
        return 0

    def part(self, data: bytes, entry: StoreEntry) -> GetResult:
        """Return the transferred bytes as a part, with one more byte if the object has more bytes than wanted.

        Raises:
            ObjectTooLarge: the body is larger than the server said.
            StoreError: the body does not have the length that the server said.
        """
        if len(data) > self.limit and self.first is None:
            raise ObjectTooLarge(len(data))
        expected = self.limit if entry.size is None else max(min(entry.size - (self.first or 0), self.limit), 0)
        if len(data) > expected or (entry.size is not None and len(data) < expected):
            raise StoreError(f"the server has sent {len(data):,} bytes or more, but said {expected:,}")
        return GetResult(data, entry)


class GetResult(NamedTuple):
    """Bytes of an object, and its entry."""

    data: bytes
    entry: StoreEntry


class Store(ABC):
    """Store that is open from ``open`` to ``close``. Every method may raise ``StoreError``."""

    real_directories = False
    """Whether empty directories exist, and ``list`` raises ``ObjectNotFound`` if a directory does not exist."""

    @abstractmethod
    async def open(self) -> None:
        """Connect.

        Raises:
            ConfigError: a package is missing.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. May be called twice, and without ``open``."""

    @abstractmethod
    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        """Return objects and directories of one level, whose keys begin with ``prefix`` and are after ``after``.

        The level is the part of the prefix before the last slash: ``docs/a`` lists ``docs/a.md`` and ``docs/api/``, and
        nothing in ``docs/api/``.

        Raises:
            ObjectNotFound: the directory does not exist, in a store with real directories.
            Unreadable: the directory has more entries than can be sorted.
        """

    async def walk(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        """Return objects at all depths below the directory ``prefix``, without directories, after ``after``."""
        found: list[StoreEntry] = []
        objects = walk(self, prefix, after, limit)
        try:
            async for entry in objects:
                found.append(entry)
                if len(found) > limit:
                    return EntryPage(found[:limit], found[limit - 1].key)
        finally:
            await objects.aclose()  # type: ignore[attr-defined]
        return EntryPage(found)

    @abstractmethod
    async def head(self, key: str) -> StoreEntry:
        """Return the entry of an object.

        Raises:
            ObjectNotFound: the object does not exist, or is a directory.
            AccessDenied: the object may not be read.
        """

    @abstractmethod
    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        """Return an object, or some of its bytes; None if it still has the version ``wanted.unless``.

        Raises:
            ObjectNotFound: the object does not exist, or is a directory.
            AccessDenied: the object may not be read.
            VersionChanged: the object does not have the version ``wanted.match``.
            ObjectTooLarge: the whole object is wanted, and has more than ``wanted.limit`` bytes; none is transferred.
        """


async def walk(store: Store, prefix: str, after: str, limit: int) -> AsyncIterator[StoreEntry]:
    """Yield the objects below a directory, depth first, in the order of their keys."""
    if prefix.count("/") > MAX_DEPTH:
        return
    if after.startswith(prefix) and "/" in after[len(prefix) :]:
        inner = prefix + after[len(prefix) :].partition("/")[0] + "/"
        try:
            async for entry in walk(store, inner, after, limit):
                yield entry
        except (ObjectNotFound, AccessDenied, Unreadable):
            pass  # removed since, or not to be listed
        after = inner
    position: str | None = after
    while position is not None:
        listing = (await store.list(prefix, position, limit + 1)).check(position)
        for entry in listing.entries:
            if not entry.is_directory:
                yield entry
                continue
            try:
                async for inside in walk(store, entry.key, "", limit):
                    yield inside
            except (ObjectNotFound, AccessDenied, Unreadable):
                continue
        position = listing.after


def is_shareable(key: str) -> bool:
    """Return whether a key has a URI that all parties understand alike: no empty, ``.`` or ``..`` segment, no NUL."""
    parts = key.removesuffix("/").split("/")
    return (
        0 < len(key) <= MAX_KEY
        and len(parts) <= MAX_DEPTH
        and "\0" not in key
        and not any(part in ("", ".", "..") for part in parts)
    )


class ListingIndex:
    """Entries in the order of their keys."""

    def __init__(self, entries: Iterable[StoreEntry] = ()) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._keys = sorted(self._entries)

    def put(self, entry: StoreEntry) -> None:
        """Add an entry. Replace an entry with the same key."""
        if entry.key not in self._entries:
            insort(self._keys, entry.key)
        self._entries[entry.key] = entry

    def remove(self, key: str) -> None:
        """Remove an entry.

        Raises:
            KeyError: the entry does not exist.
        """
        del self._entries[key]
        del self._keys[bisect_left(self._keys, key)]

    def find(self, key: str) -> StoreEntry:
        """Return an entry.

        Raises:
            ObjectNotFound: the entry does not exist.
        """
        try:
            return self._entries[key]
        except KeyError:
            raise ObjectNotFound(key) from None

    def level(self, prefix: str, after: str, limit: int) -> EntryPage:
        """Return a page of one level, as ``Store.list`` does."""
        above = prefix[: prefix.rfind("/") + 1]
        found: list[StoreEntry] = []
        at = self._start(prefix, after)
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            if len(found) == limit:
                return EntryPage(found, found[-1].key)
            key = self._keys[at]
            name, slash, _ = key[len(above) :].partition("/")
            if slash:
                found.append(StoreEntry(f"{above}{name}/"))
                at = bisect_left(self._keys, f"{above}{name}0")  # "0" follows the slash
            else:
                found.append(self._entries[key])
                at += 1
        return EntryPage(found)

    def objects(self, prefix: str, after: str, limit: int) -> EntryPage:
        """Return a page of all objects below a prefix, as ``Store.walk`` does."""
        at = self._start(prefix, after)
        keys = [key for key in self._keys[at : at + limit + 1] if key.startswith(prefix)]
        found = [self._entries[key] for key in keys[:limit]]
        return EntryPage(found, found[-1].key if len(keys) > limit else None)

    def _start(self, prefix: str, after: str) -> int:
        # After a directory means after all that is in it.
        passed = bisect_left(self._keys, after[:-1] + "0") if after.endswith("/") else bisect_right(self._keys, after)
        return max(bisect_left(self._keys, prefix), passed if after else 0)
