"""Manifest of the index: its resources, their metadata, and the versions that detect changes.

A SQLite file beside the index of terms. If a source has no windows of lines, the manifest also keeps the compressed
text for snippets; otherwise snippets are read from the source.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from carrel.search.engine import Damaged
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

__all__ = ["IndexedResource", "Manifest", "number_of"]

#: Days after which the recency of a resource has halved.
HALF_LIFE = 90.0
#: Numbers that one statement asks for.
ASKED = 500
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS providers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS resources (
    number INTEGER PRIMARY KEY, provider INTEGER NOT NULL, resource BLOB NOT NULL, version TEXT NOT NULL,
    read REAL NOT NULL, size INTEGER NOT NULL, digest BLOB NOT NULL, windows INTEGER NOT NULL, text BLOB
);
"""
PUT = "INSERT OR REPLACE INTO resources VALUES (?,?,?,?,?,?,?,?,?)"
#: KiB of the file in memory while the index is made, so that few of its pages are written twice, and later.
CACHE, CACHE_LATER = 16 * 1024, 2 * 1024

T = TypeVar("T")


class IndexedResource(msgspec.Struct, gc=False):
    """Resource in the index.

    ``version`` changes when the resource changes; it is empty if nothing indicates a change. ``read`` is the time of
    reading, in seconds since 1970. ``size`` is the number of bytes of the indexed text as UTF-8, or 0 if only the name
    is indexed. ``windows``: the source supports windows of lines. ``text`` and ``path`` (relative to the provider's
    root) are only set when an entry is written.
    """

    number: int
    provider: str
    uri: str
    resource: Resource
    version: str
    read: float
    size: int
    digest: bytes
    windows: bool
    text: str | None = None
    path: str = ""


def number_of(provider: str, uri: str) -> int:
    """Return the number of a resource: 63 bits of a hash."""
    key = f"{provider}\0{uri}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1


class Manifest:
    """Manifest in a file. Thread-safe: every method takes the lock.

    Raises:
        Damaged: the file cannot be read, or has another version.
    """

    def __init__(self, path: str, version: str, *, write: bool) -> None:
        self._lock = threading.Lock()
        self._database = self._open(path, write=write)
        try:
            self._safely(lambda: self._prepare(version, write=write))
        except BaseException:
            self._database.close()
            raise

    def _open(self, path: str, *, write: bool) -> sqlite3.Connection:
        try:
            mode = "rwc" if write else "ro"
            name = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            return sqlite3.connect(
                f"{name}?mode={mode}", uri=True, check_same_thread=False, isolation_level=None, timeout=10
            )
        except sqlite3.Error as error:
            raise Damaged(str(error)) from error

    def _prepare(self, version: str, *, write: bool) -> None:
        database = self._database
        if write:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(SCHEMA)
            database.execute("INSERT OR IGNORE INTO about VALUES ('version', ?)", (version,))
            if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise Damaged("the manifest is damaged")
            database.execute(f"PRAGMA cache_size=-{CACHE}")
        found = database.execute("SELECT value FROM about WHERE key = 'version'").fetchone()
        if found != (version,):
            raise Damaged(f"it is of another version: {found[0] if found else 'none'}")
        self._read_ids()
        if write:
            self._mark("")
            database.execute("BEGIN")

    def _safely(self, function: Callable[[], T]) -> T:
        with self._lock:
            try:
                return function()
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                raise Damaged(str(error)) from error

    def close(self) -> None:
        """Close the file; uncommitted changes are lost."""
        with self._lock:
            self._database.close()

    # Writing

    def put(self, entries: Iterable[IndexedResource]) -> None:
        """Add resources, or replace them."""
        self._safely(lambda: self._database.executemany(PUT, [self._row(entry) for entry in entries]))

    def _row(self, entry: IndexedResource) -> tuple[object, ...]:
        text = None if entry.text is None else zlib.compress(entry.text.encode("utf-8", "surrogatepass"))
        provider = self._ids.get(entry.provider)
        if provider is None:
            self._database.execute("INSERT OR IGNORE INTO providers (name) VALUES (?)", (entry.provider,))
            self._read_ids()
            provider = self._ids[entry.provider]
        resource = msgspec.json.encode(entry.resource)
        columns = (entry.version, entry.read, entry.size, entry.digest, entry.windows, text)
        return entry.number, provider, resource, *columns

    def _read_ids(self) -> None:
        self._ids: dict[str, int] = dict(self._database.execute("SELECT name, id FROM providers").fetchall())

    def _mark(self, complete: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO about VALUES ('complete', ?)", (complete,))

    def mark_complete(self) -> None:
        """Record that the index is complete, from the next commit on, and release memory."""

        def mark() -> None:
            self._mark("yes")
            self._database.execute(f"PRAGMA cache_size=-{CACHE_LATER}")
            self._database.execute("PRAGMA shrink_memory")

        self._safely(mark)

    def set_version(self, number: int, resource: Resource, version: str) -> None:
        """Update the metadata of a resource whose text is unchanged."""
        data = msgspec.json.encode(resource)
        self._safely(
            lambda: self._database.execute(
                "UPDATE resources SET resource = ?, version = ? WHERE number = ?", (data, version, number)
            )
        )

    def remove(self, number: int) -> None:
        """Remove a resource."""
        self._safely(lambda: self._database.execute("DELETE FROM resources WHERE number = ?", (number,)))

    def commit(self) -> None:
        """Commit additions and removals."""

        def commit() -> None:
            self._database.execute("COMMIT")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._database.execute("BEGIN")

        self._safely(commit)

    # Reading

    def known(self, provider: str) -> dict[int, str]:
        """Return the versions of the resources of a provider by their numbers."""
        statement = "SELECT number, version FROM resources WHERE provider = (SELECT id FROM providers WHERE name = ?)"
        found: dict[int, str] = self._safely(lambda: dict(self._database.execute(statement, (provider,))))
        return found

    def count(self, provider: str) -> int:
        """Return how many resources of a provider there are."""
        statement = "SELECT COUNT(*) FROM resources WHERE provider = (SELECT id FROM providers WHERE name = ?)"
        return int(self._rows(statement, (provider,))[0][0])

    def get(self, numbers: Sequence[int]) -> dict[int, IndexedResource]:
        """Return resources by their numbers, without their texts. Those that are not here are left out."""
        found: dict[int, IndexedResource] = {}
        for at in range(0, len(numbers), ASKED):
            part = numbers[at : at + ASKED]
            marks = ",".join("?" * len(part))
            for row in self._rows(f"SELECT {_COLUMNS} WHERE number IN ({marks})", part):
                found[row[0]] = _entry(row)
        return found

    def text(self, number: int) -> str | None:
        """Return the text of a resource, if it is kept here."""
        rows = self._rows("SELECT text FROM resources WHERE number = ?", (number,))
        data = rows[0][0] if rows else None
        return None if data is None else self._safely(lambda: _decompressed(data))

    def entries(self) -> Iterator[IndexedResource]:
        """Yield all resources, without their texts."""
        last = -1
        while True:
            rows = self._rows(f"SELECT {_COLUMNS} WHERE number > ? ORDER BY number LIMIT 1000", (last,))
            for row in rows:
                yield _entry(row)
            if not rows:
                return
            last = rows[-1][0]

    def choices(self) -> list[tuple[str, str | None]]:
        """Return the names of providers, each with the MIME types of its resources."""
        statement = (
            "SELECT DISTINCT name, json_extract(resource, '$.mimeType') FROM resources "
            "JOIN providers ON provider = providers.id"
        )
        return [(name, kind) for name, kind in self._rows(statement, ())]

    def providers(self) -> list[str]:
        """Return the names of the providers of all resources."""
        return [name for (name,) in self._rows("SELECT name FROM providers ORDER BY name", ())]

    @property
    def complete(self) -> bool:
        """Whether the process that writes the index has completed it."""
        return self._rows("SELECT value FROM about WHERE key = 'complete'", ()) == [("yes",)]

    def totals(self) -> tuple[int, int]:
        """Return how many resources there are, and how many bytes of text."""
        ((count, size),) = self._rows("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM resources", ())
        return count, size

    def _rows(self, statement: str, values: Iterable[Any]) -> list[tuple[Any, ...]]:
        return self._safely(lambda: self._database.execute(statement, tuple(values)).fetchall())


_JOINED = "resources JOIN providers ON provider = providers.id"
_COLUMNS = f"number, name, resource, version, read, size, digest, windows FROM {_JOINED}"
_decoder = msgspec.json.Decoder(Resource)


def _entry(row: tuple[Any, ...]) -> IndexedResource:
    number, provider, data, version, read, size, digest, windows = row
    try:
        resource = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Damaged(str(error)) from error
    return IndexedResource(number, provider, resource.uri, resource, version, read, size, digest, bool(windows))


def _decompressed(data: bytes) -> str:
    try:
        return zlib.decompress(data).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise Damaged(str(error)) from error


def recency_of(modified: float | None, now: float) -> float:
    """Return how recent a time is: 1 now, half after three months, 0 if it is not known."""
    return 0.0 if modified is None else math.pow(0.5, max(0.0, now - modified) / 86400 / HALF_LIFE)


def importance_of(annotations: Annotations | None) -> float:
    """Return the priority of a resource from 0 to 1, 0.5 if it has none."""
    return 0.5 if annotations is None or annotations.priority is None else min(max(annotations.priority, 0.0), 1.0)
