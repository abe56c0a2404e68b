"""Cache of fetched pages in a folder, bounded by size. A restarted server fetches only changed pages.

Each page has a file: a line of JSON about the response, then its body. A file is written under a temporary name and
renamed, so that a reader never sees a partial file. A damaged file counts as missing. Requests carry no credentials, so
the folder contains no personal pages. Responses with Cache-Control private or no-store, or with ``Vary: *``, are not
written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from time import time

import msgspec

from carrel.errors import ConfigError

__all__ = ["DiskCache", "Stored", "digest_of", "fresh_seconds"]

ENDING = ".page"
#: Suffix of temporary files, and seconds after which a temporary file is considered abandoned.
PART, ABANDONED = ".part", 3600.0
MAX_HEAD = 64 * 1024


class Stored(msgspec.Struct, frozen=True):
    """Metadata of a response that are kept with its body. ``fresh_until`` is in seconds since 1970."""

    asked: str
    url: str
    kind: str
    charset: str
    fresh_until: float
    validators: dict[str, str]
    modified: str | None
    digest: str


class DiskCache:
    """Least recently used pages in a folder, of up to ``limit`` bytes in all, and ``most`` of each.

    Its methods block, and are thread-safe. Several processes may use one folder. ``variant`` is hashed into each file
    name, so that pages fetched with other options are not reused.
    """

    def __init__(self, folder: str, limit: int, most: int, variant: str) -> None:
        self._folder = Path(folder).expanduser()
        self._limit = limit
        self._most = most
        self._variant = variant
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def open(self) -> None:
        """Create the folder, and load the list of its files.

        Raises:
            ConfigError: the folder cannot be created or read, or other users own it or may write to it.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = self._folder.stat()
            found = []
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(ENDING) and entry.is_file(follow_symlinks=False):
                        seen = entry.stat(follow_symlinks=False)
                        found.append((seen.st_mtime_ns, entry.name, seen.st_size))
                    elif entry.name.endswith(PART) and entry.stat(follow_symlinks=False).st_mtime < time() - ABANDONED:
                        Path(entry).unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"cache_folder {self._folder}: {error.strerror}") from None
        if os.name == "posix" and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(f"cache_folder {self._folder}: others may write to it; chmod go-w")
        if os.name == "posix" and info.st_uid != os.geteuid():
            raise ConfigError(f"cache_folder {self._folder}: it belongs to another user")
        with self._lock:
            self._sizes = OrderedDict((name, size) for _, name, size in sorted(found))
            self._total = sum(self._sizes.values())
            self._shrink()

    def get(self, url: str) -> tuple[Stored, bytes] | None:
        """Return the cached response of a URL, fresh or stale."""
        path = self._path(url)
        try:
            with path.open("rb") as file:
                head = file.readline(MAX_HEAD)
                data = file.read(self._most + 1)
            stored = msgspec.json.decode(head, type=Stored)
        except (OSError, msgspec.DecodeError):
            return None
        if stored.asked != url or len(data) > self._most or stored.digest != digest_of(data):
            self.drop(url)
            return None
        with self._lock, contextlib.suppress(OSError):
            os.utime(path)
            self._count(path.name, len(head) + len(data))
        return stored, data

    def put(self, url: str, stored: Stored, data: bytes) -> None:
        """Store a page, and evict the least recently used pages. A page that is larger than the limit is not stored."""
        text = msgspec.json.encode(stored) + b"\n" + data
        if len(text) > self._limit:
            self.drop(url)
            return
        path = self._path(url)
        with tempfile.NamedTemporaryFile(
            dir=self._folder, suffix=PART, delete=False
        ) as file:  # readable by its owner only
            try:
                file.write(text)
                file.close()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        with self._lock:
            self._count(path.name, len(text))
            self._shrink()

    def drop(self, url: str) -> None:
        """Remove a page from the cache."""
        with self._lock:
            self._remove(self._path(url).name)

    def _count(self, name: str, size: int) -> None:
        """Record the size of a file, and mark it as most recently used."""
        self._total += size - self._sizes.pop(name, 0)
        self._sizes[name] = size

    def _shrink(self) -> None:
        while self._total > self._limit:
            self._remove(next(iter(self._sizes)))

    def _remove(self, name: str) -> None:
        self._total -= self._sizes.pop(name, 0)
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def _path(self, url: str) -> Path:
        name = hashlib.blake2b(f"{self._variant}\0{url}".encode(), digest_size=16).hexdigest()
        return self._folder / (name + ENDING)


def digest_of(data: bytes) -> str:
    """Return the digest that detects a damaged file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def fresh_seconds(stored: Stored, most: float) -> float:
    """Return the remaining seconds for which a page is fresh: 0 if the clock has been set back."""
    left = stored.fresh_until - time()
    return left if 0 < left <= most else 0.0
