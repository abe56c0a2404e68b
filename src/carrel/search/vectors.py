"""Vectors of passages, beside the index: a file of numbers that is mapped into memory, and SQLite to find them by.

A vector belongs to the text of a passage, by its hash: the same text is not embedded twice, also after it has moved to
another resource, or after a rebuild of the index. Rows of deleted texts are reused.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from carrel.errors import ConfigError
from carrel.search.engine import Damaged, Match

__all__ = ["Nearest", "Vectors"]

#: Version of the schema; vectors in another format are computed again.
FORMAT = 2
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passages (number INTEGER NOT NULL, first INTEGER, last INTEGER, hash BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS passages_by_number ON passages(number);
CREATE INDEX IF NOT EXISTS passages_by_hash ON passages(hash);
CREATE TABLE IF NOT EXISTS vectors (hash BLOB PRIMARY KEY, file_row INTEGER NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (hash BLOB PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
"""
ROWS = "SELECT COALESCE(MAX(file_row) + 1, 0) FROM vectors"
#: Number of vectors compared at a time, and number of rows in one SELECT statement.
COMPARED, SELECTED = 16_384, 500
#: Characters of a passage that are embedded.
MAX_TEXT = 8000

T = TypeVar("T")
Nearest = Callable[[int, int], list[Match]]
"""Function that returns ``size`` passages from ``offset``, the most similar first."""


def numbers() -> Any:
    """Import numpy.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import numpy
    except ModuleNotFoundError:
        raise ConfigError("embeddings need the package numpy: pip install 'carrel[embeddings]'") from None
    return numpy


class Vectors:
    """Vectors in a folder, computed by ``model``. ``fresh``: the index is new, and has no passages yet.

    Its methods block. Thread-safe: every method takes the lock.

    Raises:
        ConfigError: numpy is not installed.
        Damaged: they cannot be read, or are of another model; then they are removed, if this process ``write``\\ s.
    """

    def __init__(self, folder: str, model: str, *, write: bool, fresh: bool) -> None:
        self._numpy = numbers()
        self._lock = threading.Lock()
        self._path = os.path.join(folder, "vectors.f32")  # noqa: PTH118
        database = os.path.join(folder, "vectors.sqlite")  # noqa: PTH118
        name = "file:" + database.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        self._write = write
        self._matrix: Any = None
        self._free: list[int] = []
        try:
            self._database = sqlite3.connect(
                f"{name}?mode={'rwc' if write else 'ro'}",
                uri=True,
                check_same_thread=False,
                isolation_level=None,
                timeout=10,
            )
        except sqlite3.Error as error:
            raise Damaged(str(error)) from error
        try:
            self._safely(lambda: self._prepare(model, fresh))
        except Damaged:
            self._database.close()
            if write:
                for path in (database, f"{database}-wal", f"{database}-shm", self._path):
                    if os.path.exists(path):  # noqa: PTH110
                        os.unlink(path)  # noqa: PTH108
            raise

    def _prepare(self, model: str, fresh: bool) -> None:
        database, model = self._database, f"{model}, format {FORMAT}"
        if self._write:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(SCHEMA)
            begun = database.execute("INSERT OR IGNORE INTO about VALUES ('model', ?)", (model,)).rowcount
            if begun and not fresh:
                raise Damaged("there are no vectors yet")
            if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise Damaged("the list of vectors is damaged")
        about = dict(database.execute("SELECT key, value FROM about").fetchall())
        if about.get("model") != model:
            raise Damaged("the vectors are from another model, or in another format")
        self.dimensions = int(about.get("dimensions", 0))
        (self._rows,) = database.execute(ROWS).fetchone()
        if self._rows and os.path.getsize(self._path) < self._rows * self.dimensions * 4:  # noqa: PTH202
            raise Damaged("vectors are missing")
        if self._write:
            database.execute("BEGIN")
            if fresh:
                database.execute("DELETE FROM passages")
                database.execute("DELETE FROM waiting")

    def _safely(self, function: Callable[[], T]) -> T:
        with self._lock:
            try:
                return function()
            except (sqlite3.Error, OSError, zlib.error, UnicodeDecodeError) as error:
                raise Damaged(str(error)) from error

    def close(self) -> None:
        """Close the files; uncommitted changes are lost."""
        with self._lock:
            self._matrix = None
            self._database.close()

    # Passages

    def put(self, number: int, passages: Iterable[tuple[int, int, str]]) -> None:
        """Add or replace the passages of a resource: first line, last line, text."""
        rows, texts = [], {}
        for first, last, text in passages:
            data = text[:MAX_TEXT].encode("utf-8", "replace")
            key = hashlib.blake2b(data, digest_size=16).digest()
            rows.append((number, first, last, key))
            texts[key] = data

        def put() -> None:
            database = self._database
            database.execute("DELETE FROM passages WHERE number = ?", (number,))
            database.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)
            for key, data in texts.items():
                if database.execute("SELECT 1 FROM vectors WHERE hash = ?", (key,)).fetchone() is None:
                    database.execute("INSERT OR IGNORE INTO waiting VALUES (?, ?)", (key, zlib.compress(data, 1)))

        self._safely(put)

    def remove(self, number: int) -> None:
        """Remove the passages of a resource."""
        self._safely(lambda: self._database.execute("DELETE FROM passages WHERE number = ?", (number,)))

    def commit(self) -> None:
        """Commit additions and removals."""

        def commit() -> None:
            self._database.execute("COMMIT")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._database.execute("BEGIN")

        self._safely(commit)

    def tidy(self) -> None:
        """Delete texts and vectors of deleted passages."""

        def tidy() -> None:
            for table in ("vectors", "waiting"):
                self._database.execute(f"DELETE FROM {table} WHERE hash NOT IN (SELECT hash FROM passages)")  # noqa: S608
            used = {row for (row,) in self._database.execute("SELECT file_row FROM vectors")}
            self._free = [row for row in range(self._rows) if row not in used]

        self._safely(tidy)

    # Vectors

    def waiting(self, most: int) -> dict[bytes, str]:
        """Return texts that have no vector yet, by their hashes."""
        rows = self._safely(
            lambda: self._database.execute("SELECT hash, text FROM waiting LIMIT ?", (most,)).fetchall()
        )
        return self._safely(lambda: {key: zlib.decompress(data).decode() for key, data in rows})

    def count(self) -> int:
        """Return how many texts have no vector yet."""
        return int(self._safely(lambda: self._database.execute("SELECT COUNT(*) FROM waiting").fetchone()[0]))

    def add(self, vectors: Iterable[tuple[bytes, Any]]) -> None:
        """Store the vectors of texts. A text without a usable vector has None, or a zero vector.

        Raises:
            ValueError: a vector's length differs from the stored vectors.
        """
        try:
            units = [(key, None if vector is None else self.unit(vector)) for key, vector in vectors]
        except TypeError as error:
            raise ValueError(f"these are not vectors: {error}") from None
        for _, unit in units:
            if unit is not None and unit.size != (self.dimensions or unit.size):
                raise ValueError(f"vectors have {unit.size} numbers now, and had {self.dimensions}")

        def add() -> None:
            with open(self._path, "r+b" if os.path.exists(self._path) else "w+b") as file:  # noqa: PTH110, PTH123
                for key, unit in units:
                    self._database.execute("DELETE FROM waiting WHERE hash = ?", (key,))
                    if unit is None:
                        continue
                    if not self.dimensions:
                        self.dimensions = int(unit.size)
                        self._database.execute(
                            "INSERT OR REPLACE INTO about VALUES ('dimensions', ?)", (str(self.dimensions),)
                        )
                    row = self._free.pop() if self._free else self._rows
                    file.seek(row * self.dimensions * 4)
                    file.write(unit.tobytes())
                    self._rows = max(self._rows, row + 1)
                    self._database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, row))

        self._safely(add)

    def unit(self, vector: Any) -> Any:
        """Return a vector with the length 1 as an array; None if it has no direction."""
        array = self._numpy.asarray(vector, dtype="<f4").reshape(-1)
        length = float(self._numpy.linalg.norm(array))
        return array / self._numpy.float32(length) if 0 < length < float("inf") else None

    def nearest(self, vector: Any) -> Nearest:
        """Return a function that returns parts of the list of passages most similar to a vector.

        A row without a passage becomes a match of resource -1.
        """
        numpy, matrix = self._numpy, self._mapped()
        try:
            unit = self.unit(vector)
        except (TypeError, ValueError):
            unit = None
        if matrix is None or unit is None or unit.size != self.dimensions:
            return lambda size, offset: []
        # Not by BLAS: memory bandwidth is the limit, and BLAS threads only use several times the CPU.
        parts = [numpy.vecdot(matrix[at : at + COMPARED], unit) for at in range(0, len(matrix), COMPARED)]
        scores = numpy.concatenate(parts)

        def part(size: int, offset: int) -> list[Match]:
            most = min(len(scores), offset + size)
            first = numpy.argpartition(-scores, most - 1)[:most]
            first = first[numpy.lexsort((first, -scores[first]))][offset:]
            return self._matches([(int(row), float(scores[row])) for row in first if scores[row] > 0])

        return part

    def _mapped(self) -> Any:
        """Return the file as a matrix; None if it is empty."""

        def mapped() -> Any:
            if not self._write:
                about = dict(self._database.execute("SELECT key, value FROM about").fetchall())
                self.dimensions = int(about.get("dimensions", 0))
                (self._rows,) = self._database.execute(ROWS).fetchone()
            if self._rows and (self._matrix is None or len(self._matrix) != self._rows):
                shape = (self._rows, self.dimensions)
                self._matrix = self._numpy.memmap(self._path, dtype="<f4", mode="r", shape=shape)
            return self._matrix if self._rows else None

        try:
            return self._safely(mapped)
        except ValueError as error:  # the file is shorter
            raise Damaged(str(error)) from error

    def _matches(self, scored: Sequence[tuple[int, float]]) -> list[Match]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        for at in range(0, len(scored), SELECTED):
            part = [row for row, _ in scored[at : at + SELECTED]]
            statement = (
                "SELECT file_row, number, first, last FROM vectors JOIN passages USING (hash) "  # noqa: S608
                f"WHERE file_row IN ({','.join('?' * len(part))})"
            )
            rows = self._safely(lambda one=statement, two=part: self._database.execute(one, two).fetchall())  # type: ignore[misc]
            for row, *match in rows:
                found.setdefault(row, []).append(tuple(match))
        return [
            Match(number, first, last, score)
            for row, score in scored
            for number, first, last in found.get(row, [(-1, 0, 0)])
        ]
