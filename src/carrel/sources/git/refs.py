"""Refs of a repository, read from its files: HEAD, loose refs, packed-refs. Names are never passed to git.

https://git-scm.com/docs/gitrepository-layout and https://git-scm.com/docs/git-check-ref-format
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from carrel.sources.git.repository import Repository, read_inside
from carrel.threads import stop_if_cancelled

__all__ = ["BRANCHES", "REMOTES", "TAGS", "Refs", "RefsAt", "is_ref_name"]

BRANCHES, TAGS, REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
SEARCHED = ("", "refs/", TAGS, BRANCHES, REMOTES)  # where a short name is looked for, as git does

MAX_NAME = 1000
MAX_PACKED = 256 * 1024 * 1024
MAX_REFS = 1_000_000
MAX_HOPS = 5  # symbolic refs that lead to one another
MAX_DEPTH = 32

ODD = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|/\.|\./|\.lock(?:/|\Z)|^[./-]|[./]\Z|^@\Z")


def is_ref_name(name: str) -> bool:
    """Return whether git allows a name for a ref."""
    return 0 < len(name) <= MAX_NAME and ODD.search(name) is None


class Refs:
    """Refs of a repository. All methods block, are thread-safe, and return current data."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._hexadecimal = re.compile(rf"[0-9a-f]{{{repository.digits}}}\Z")
        self._packed: tuple[object, dict[str, str]] = (None, {})

    def packed(self) -> dict[str, str]:
        """Return the refs in packed-refs, by name."""
        path = os.path.join(self._repository.common_dir, "packed-refs")
        try:
            info = os.lstat(path)
        except OSError:
            return {}
        key = (info.st_mtime_ns, info.st_size, info.st_ino)
        kept, found = self._packed
        if kept == key:
            return found
        found = {}
        for line in packed_lines(path, info.st_size):
            id, _, name = line.partition(" ")
            if self._hexadecimal.match(id) and name.startswith("refs/") and is_ref_name(name):
                found[name] = id
                if len(found) >= MAX_REFS:
                    break
        self._packed = (key, found)
        return found

    def read(self, name: str) -> str | None:
        """Return the object id of a full name (``HEAD``, ``refs/…``), through symbolic refs, or None."""
        for _ in range(MAX_HOPS):
            value = self._loose(name)
            if value is None:
                return self.packed().get(name)
            if not value.startswith("ref:"):
                return value if self._hexadecimal.match(value) else None
            name = value[4:].strip()
            if not name.startswith("refs/") or not is_ref_name(name):
                return None
        return None

    def head(self) -> str | None:
        """Return the full name of the checked-out branch, or None if HEAD is detached."""
        value = self._loose("HEAD") or ""
        name = value[4:].strip()
        return name if value.startswith("ref:") and name.startswith("refs/") and is_ref_name(name) else None

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the full name and the object id of a ref by its name, which may be short, as git looks for it."""
        if not is_ref_name(name):
            return None
        for prefix in SEARCHED:
            whole = prefix + name
            if whole != "HEAD" and not whole.startswith("refs/"):
                continue
            id = self.read(whole)
            if id is not None:
                return whole, id
        whole = f"{REMOTES}{name}/HEAD"
        id = self.read(whole)
        return None if id is None else (whole, id)

    def all(self) -> dict[str, str]:
        """Return the object ids of branches, tags and remote branches by full name, in order."""
        found = {name: id for name, id in self.packed().items() if name.startswith((BRANCHES, TAGS, REMOTES))}
        for prefix in (BRANCHES, TAGS, REMOTES):
            for name in self._walk(prefix, 0):
                id = self.read(name)
                if id is not None and len(found) < MAX_REFS:
                    found[name] = id
        return dict(sorted(found.items()))

    def _loose(self, name: str) -> str | None:
        """Return the contents of the file of a ref."""
        repository = self._repository
        folder = repository.common_dir if name.startswith("refs/") else repository.git_dir
        data = read_inside(folder, name)
        return None if data is None else data.decode("utf-8", "surrogateescape").strip()

    def _walk(self, prefix: str, depth: int) -> Iterator[str]:
        """Yield the names of loose refs. Links are not followed."""
        stop_if_cancelled()
        try:
            with os.scandir(os.path.join(self._repository.common_dir, *prefix.rstrip("/").split("/"))) as entries:
                inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (OSError, ValueError):
            return
        for name, is_directory in inside:
            if is_directory and depth < MAX_DEPTH:
                yield from self._walk(f"{prefix}{name}/", depth + 1)
            elif not is_directory and is_ref_name(prefix + name):
                yield prefix + name


class RefsAt(Refs):
    """Snapshot of branches, tags, remote branches and HEAD."""

    def __init__(self, refs: Refs) -> None:
        super().__init__(refs._repository)
        self._found = refs.all()
        self._name = refs.head()
        self._id = refs.read("HEAD")

    def read(self, name: str) -> str | None:
        """Return the object id of a full name."""
        if name == "HEAD":
            return self._id
        return self._found.get(name) if name.startswith((BRANCHES, TAGS, REMOTES)) else super().read(name)

    def head(self) -> str | None:
        """Return the full name of the branch that was checked out."""
        return self._name

    def all(self) -> dict[str, str]:
        """Return the object ids by full name, in order."""
        return self._found


def packed_lines(path: str, size: int) -> Iterator[str]:
    """Yield the lines of packed-refs, without comments and the objects that tags lead to."""
    if size > MAX_PACKED:
        return
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return
    with os.fdopen(descriptor, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file):
            if number % 10_000 == 0:
                stop_if_cancelled()
            if line[0] not in "#^":
                yield line.rstrip("\n")
