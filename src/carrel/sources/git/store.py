"""Objects of a repository by id, read through ``git cat-file``, and by path; trees and commits are cached.

Objects never change, so the caches need no invalidation. They are limited by the bytes of the cached objects.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import IO, NamedTuple, TypeVar

from carrel.sources.git.isolation import Isolation
from carrel.sources.git.objects import Commit, Tag, TreeObjectEntry, parse_commit, parse_tag, parse_tree
from carrel.sources.git.process import GitFailed, ObjectPipe
from carrel.sources.git.repository import Repository
from carrel.sources.sized_cache import SizedCache

__all__ = ["Ambiguous", "BlobTooLarge", "MissingObject", "Object", "ObjectStore"]

T = TypeVar("T")

MAX_TREE = 32 * 1024 * 1024  # bytes of one tree, commit or tag
CACHED = 16 * 1024 * 1024  # bytes of the objects that each cache was made from
IDLE = 2  # processes of each kind that are kept
BATCH = 500
MAX_TAGS = 16  # that lead to one another
HEAD = 8192

ABBREVIATED = re.compile(r"[0-9a-f]{4,64}\Z")


class MissingObject(Exception):
    """The repository does not have the object."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class Ambiguous(Exception):
    """Several objects begin with these digits."""


class BlobTooLarge(Exception):
    """The object has ``size`` bytes, which exceeds the limit. ``head`` contains its first bytes."""

    def __init__(self, size: int, head: bytes) -> None:
        super().__init__(size)
        self.size = size
        self.head = head


class Object(NamedTuple):
    """Id, type ("blob", "tree", "commit", "tag") and size in bytes of an object."""

    id: str
    kind: str
    size: int


class ObjectStore:
    """Objects of a repository. All methods block, and are thread-safe. A request may take ``seconds``.

    Methods that take an id raise ``MissingObject`` if the object does not exist, ``DamagedObject`` if it cannot be
    parsed, ``GitFailed`` if git fails, and ``GitTimeout``.
    """

    def __init__(self, repository: Repository, isolation: Isolation, seconds: float) -> None:
        self.repository = repository
        self.isolation = isolation
        self.seconds = seconds
        self._lock = Lock()
        self._idle: dict[str, list[ObjectPipe]] = {"--batch": [], "--batch-check": []}
        self._closed = False
        self._trees: SizedCache[str, list[TreeObjectEntry]] = SizedCache(CACHED)
        self._commits: SizedCache[str, Commit] = SizedCache(CACHED)

    def _borrow(self, mode: str, ids: Sequence[str]) -> ObjectPipe:
        """Return a process from the pool. It is returned to the pool, or closed if an exchange does not complete."""
        while True:
            with self._lock:
                idle = self._idle[mode]
                pipe = idle.pop() if idle else None
            if pipe is None:
                return ObjectPipe(self.isolation, mode)
            if pipe.is_sound(ids):
                return pipe
            pipe.close()

    def _give_back(self, mode: str, pipe: ObjectPipe) -> None:
        with self._lock:
            idle = self._idle[mode]
            keep = not self._closed and len(idle) < IDLE
            if keep:
                idle.append(pipe)
        if not keep:
            pipe.close()

    def _check(self, ids: Sequence[str]) -> list[list[str]]:
        """Return the headers of objects."""
        pipe, deadline = self._borrow("--batch-check", ids), monotonic() + self.seconds
        try:
            pipe.ask(*ids)
            found = [pipe.header(deadline) for _ in ids]
            if not pipe.is_sound(ids):
                raise GitFailed
        except BaseException:
            pipe.close()
            raise
        self._give_back("--batch-check", pipe)
        return found

    def close(self) -> None:
        """End the processes, and clear the caches."""
        with self._lock:
            self._closed = True
            pipes = [pipe for idle in self._idle.values() for pipe in idle]
            for idle in self._idle.values():
                idle.clear()
        for pipe in pipes:
            pipe.close()
        self._trees.clear()
        self._commits.clear()

    # Objects

    def look_up(self, digits: str) -> Object | None:
        """Return an object by its id or an id prefix, or None if it does not exist.

        Raises:
            Ambiguous: several objects have this prefix.
        """
        if not ABBREVIATED.match(digits):
            return None
        [header] = self._check([digits])
        if header[-1] == "ambiguous":
            raise Ambiguous
        return object_of(header)

    def look_up_all(self, ids: Sequence[str]) -> list[Object | None]:
        """Return objects by their ids, with None for each missing object."""
        found: list[Object | None] = []
        for start in range(0, len(ids), BATCH):
            found += map(object_of, self._check(ids[start : start + BATCH]))
        return found

    def read(self, id: str, limit: int) -> tuple[str, bytes]:
        """Return the type and the contents of an object.

        Raises:
            BlobTooLarge: it has more than ``limit`` bytes.
        """
        return self._read(id, limit, None)

    def spool(self, id: str, limit: int) -> IO[bytes]:
        """Return a temporary file, which the caller closes, with the contents of an object.

        Raises:
            BlobTooLarge: it has more than ``limit`` bytes.
        """
        file = tempfile.TemporaryFile(prefix="carrel-git-")  # noqa: SIM115
        try:
            self._read(id, limit, file.write)
            file.flush()
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, id: str, limit: int, write: Callable[[bytes], object] | None) -> tuple[str, bytes]:
        pipe, deadline = self._borrow("--batch", [id]), monotonic() + self.seconds
        try:
            pipe.ask(id)
            found = object_of(pipe.header(deadline))
            if found is None:
                data = None
            elif found.id != id:  # a response to another request: the previous object was damaged
                raise GitFailed
            elif found.size > limit:
                raise BlobTooLarge(found.size, next(pipe.take(found.size, deadline), b"")[:HEAD])  # the rest can wait
            elif write is None:
                data = pipe.take_whole(found.size, deadline)
            else:
                data = b""
                for part in pipe.take(found.size, deadline):
                    write(part)
            if not pipe.is_sound([id]):
                raise GitFailed
        except BaseException:
            pipe.close()
            raise
        self._give_back("--batch", pipe)
        if found is None or data is None:
            raise MissingObject(id)
        return found.kind, data

    # Parsed objects

    def commit(self, id: str) -> Commit:
        """Return a commit.

        Raises:
            MissingObject: there is no such commit.
        """
        return self._parsed(id, "commit", self._commits, parse_commit)

    def tag(self, id: str) -> Tag | None:
        """Return an annotated tag; None if the object is of another type."""
        kind, data = self.read(id, MAX_TREE)
        return parse_tag(data, self.repository.digits) if kind == "tag" else None

    def tree(self, id: str) -> list[TreeObjectEntry]:
        """Return the entries of a tree, in git's order.

        Raises:
            MissingObject: there is no such tree.
        """
        return self._parsed(id, "tree", self._trees, parse_tree)

    def _parsed(self, id: str, kind: str, cache: SizedCache[str, T], parse: Callable[[bytes, int], T]) -> T:
        found = cache.get(id)
        if found is None:
            actual, data = self.read(id, MAX_TREE)
            if actual != kind:
                raise MissingObject(id)
            found = parse(data, self.repository.digits)
            cache.put(id, found, len(data))
        return found

    def peel(self, id: str) -> Object:
        """Return the object that a tag leads to, through further tags; any other object itself."""
        for _ in range(MAX_TAGS):
            if self._commits.get(id) is not None:
                return Object(id, "commit", 0)
            found = self.look_up(id)
            if found is None:
                raise MissingObject(id)
            if found.kind != "tag":
                return found
            tag = self.tag(id)
            if tag is None:
                raise MissingObject(id)
            id = tag.object
        raise MissingObject(id)

    def entry(self, tree: str, parts: Sequence[str]) -> TreeObjectEntry | None:
        """Return the entry at a path below a tree, or None if it does not exist."""
        found = TreeObjectEntry("", 0o040000, tree)
        for name in parts:
            if not found.is_directory:
                return None
            inside = next((entry for entry in self.tree(found.id) if entry.name == name), None)
            if inside is None:
                return None
            found = inside
        return found


def object_of(header: list[str]) -> Object | None:
    if len(header) != 3 or not header[2].isdigit():
        return None
    return Object(header[0], header[1], int(header[2]))
