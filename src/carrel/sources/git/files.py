"""All files of a commit in one list, with the ids of their contents, for a search index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from carrel.log import Log
from carrel.sources.git.entries import describe_entries
from carrel.sources.git.objects import UNSAFE, TreeObjectEntry
from carrel.sources.git.process import GitFailed, GitTimeout, pieces
from carrel.sources.git.revisions import OpenRepository
from carrel.wire.resources import Resource

__all__ = ["KEY", "VERSION", "Files"]

log = Log("carrel.sources")

VERSION = "carrel/version"
"""Name in ``_meta`` of the id of the contents."""

KEY = "3"  # with which the keys of files begin
MAX_LIST = 32 * 1024 * 1024  # bytes of the list as git prints it, which has some 300,000 files


class Files:
    """Files of a commit by their paths, kept from the first page of a list to the last."""

    def __init__(self, opened: OpenRepository) -> None:
        self._opened = opened
        self._kept: tuple[str, Mapping[str, tuple[str, TreeObjectEntry]]] | None = None

    def at(self, id: str) -> Mapping[str, tuple[str, TreeObjectEntry]]:
        """Return the paths and entries of a commit's files by list key, sorted by key.

        If a tree is damaged, or the commit has too many files, the result contains the files that git printed before it
        stopped.
        """
        kept = self._kept
        if kept is not None and kept[0] == id:
            return kept[1]
        found: dict[str, tuple[str, TreeObjectEntry]] = {}
        for line in self._lines(id):
            about, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
            mode, _, object = about.split(" ")
            *folders, name = path.split("/")
            if name not in UNSAFE and not any(folder in UNSAFE for folder in folders):
                found[f"{KEY}/{path}"] = (path, TreeObjectEntry(name, int(mode, 8), object))
        found = dict(sorted(found.items()))
        self._kept = (id, found)
        return found

    def _lines(self, id: str) -> list[bytes]:
        """Return the lines that git prints of the files of a commit."""
        parts, size, whole = list[bytes](), 0, True
        try:
            for data in pieces(
                self._opened.store.isolation, self._opened.options.max_seconds, "ls-tree", "-r", "-z", id
            ):
                parts.append(data)
                size += len(data)
                if size > MAX_LIST:
                    whole = False
                    break
        except (GitFailed, GitTimeout):
            whole = False
        if not whole:
            log.warning("%s: there are more files than search has", self._opened.names.root)
        return b"".join(parts).split(b"\0")[:-1]

    def forget(self) -> None:
        """Clear the cached list."""
        self._kept = None

    def describe(self, ref: str, files: Sequence[tuple[str, TreeObjectEntry]]) -> list[Resource]:
        """Return files as resources."""
        found: list[Resource] = []
        for folder, group in groupby(files, lambda file: file[0].rpartition("/")[0]):
            entries = [entry for _, entry in group]
            resources = describe_entries(self._opened, ref, tuple(folder.split("/")) if folder else (), entries)
            found += [
                msgspec.structs.replace(resource, meta={VERSION: entry.id})
                for resource, entry in zip(resources, entries, strict=True)
            ]
        return found
