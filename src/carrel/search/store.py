"""Store of the index: terms and manifest together, in a folder. Its methods block; they are called in threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from carrel.log import Log
from carrel.search.engine import Damaged, Engine, engine_version
from carrel.search.folder import IndexFolder
from carrel.search.manifest import IndexedResource, Manifest
from carrel.search.passages import passages_of
from carrel.search.vectors import Vectors
from carrel.sources.content.words import is_cjk, terms_of
from carrel.sources.documents.query import text_uri

if TYPE_CHECKING:
    from carrel.wire.resources import Resource

__all__ = ["IndexStore"]

log = Log("carrel.search")

#: Version of the index format; an index with another version is rebuilt.
FORMAT = "4"
#: Characters of the headings of a resource that are indexed with its name.
MAX_HEADINGS = 20_000
#: Folders of a path, and characters of a description, that are indexed with a name.
MAX_FOLDERS, MAX_DESCRIPTION = 8, 1000


class IndexStore:
    """Index of the resources of a server. ``writes``: this process changes it, as it has the lock.

    ``model`` is the model for the vectors of passages, if any.

    Raises:
        ConfigError: tantivy is not installed, or the folder cannot be used.
        Damaged: another process has the lock, and there is no index yet.
    """

    def __init__(self, folder: IndexFolder, model: str | None = None) -> None:
        self._folder = folder
        self._model = model
        self.vectors: Vectors | None = None
        self._version = f"{FORMAT} tantivy {engine_version()}"
        self.writes = folder.lock()
        self.rebuilt: str | None = None
        """Why the index was rebuilt; None if the existing index is used."""
        try:
            try:
                self._open()
            except Damaged as error:
                if not self.writes:
                    raise
                self._begin_anew(str(error))
        except BaseException:
            folder.unlock()
            raise

    def _open(self) -> None:
        fresh = not os.path.exists(self._folder.manifest)  # noqa: PTH110
        if fresh and not self.writes:
            raise Damaged("there is no index yet")
        if fresh:
            self._folder.clear()
        self.manifest = Manifest(self._folder.manifest, self._version, write=self.writes)
        try:
            self.engine = Engine(self._folder.terms, write=self.writes)
            if self.writes and self.manifest.totals()[0] and not self.engine.has_documents:
                raise Damaged("the terms are missing")
            if self._model is not None:
                fresh = not self.manifest.totals()[0]
                self.vectors = Vectors(self._folder.path, self._model, write=self.writes, fresh=fresh)
        except BaseException:
            self.manifest.close()
            raise
        self._identity = self._folder.identity()
        if self.writes:
            self._folder.restrict()

    def _begin_anew(self, reason: str) -> None:
        log.warning("the search index is made anew: %s", reason)
        self._folder.clear()
        self._open()
        self.rebuilt = reason

    def rebuild(self, reason: str) -> None:
        """Replace the index with an empty index."""
        try:
            self.close_files()
        except Damaged as error:
            log.debug("closing the damaged index: %s", error)
        self._begin_anew(reason)

    def close_files(self) -> None:
        """Close the index, and keep the lock."""
        if self.vectors is not None:
            self.vectors.close()
        self.manifest.close()
        self.engine.close()

    def close(self) -> None:
        """Close the index, and release the lock."""
        try:
            self.close_files()
        finally:
            self._folder.unlock()

    # Writing

    def write(self, put: Iterable[tuple[IndexedResource, bool]], removed: Iterable[int] = ()) -> None:
        """Add or replace resources, each with whether it may be here already, and remove others."""
        for number in removed:
            self.engine.remove(number)
            self.manifest.remove(number)
            if self.vectors is not None:
                self.vectors.remove(number)
        entries = []
        for entry, known in put:
            text = entry.text or ""
            passages = list(passages_of(text, type_of_text(entry.resource)))
            headings = "\n".join(dict.fromkeys(each.heading for each in passages if each.heading))[:MAX_HEADINGS]
            self.engine.put(
                entry.number,
                names_of(entry.resource, entry.path),
                headings,
                ((text[each.start : each.end], each.heading, each.first, each.last) for each in passages),
                known=known,
            )
            if self.vectors is not None:
                meant = ((each.first, each.last, f"{each.heading}\n{text[each.start : each.end]}") for each in passages)
                self.vectors.put(entry.number, meant)
            if entry.windows:
                entry.text = None
            entries.append(entry)
        self.manifest.put(entries)

    def commit(self) -> None:
        """Write all changes to disk, and make them searchable."""
        if self.vectors is not None:
            self.vectors.commit()  # first, because resources in the manifest are not read again
        self.engine.commit()
        self.manifest.commit()
        self._folder.restrict()

    def refresh(self) -> None:
        """Reload the index that another process has written.

        Raises:
            Damaged: it cannot be read, or another process has rebuilt the index.
        """
        if self._folder.identity() != self._identity:
            raise Damaged("another process has rebuilt the index")
        self.engine.reload()

    def size(self) -> int:
        """Return the bytes that the index has on the disk."""
        return self._folder.size()

    def entries(self, numbers: Sequence[int]) -> dict[int, IndexedResource]:
        """Return resources by their numbers."""
        return self.manifest.get(numbers)


def type_of_text(resource: Resource) -> str | None:
    """Return the MIME type of the text of a resource: of a document, it is Markdown."""
    return resource.mime_type if text_uri(resource) == resource.uri else "text/markdown"


def names_of(resource: Resource, path: str) -> str:
    """Return the searchable names of a resource: name, title and path, split into words, and the description."""
    folders, _, last = path.rpartition("/")
    words = dict.fromkeys(terms_of(resource.name))
    for part in (resource.title, last):
        if part and part != resource.name:
            words |= dict.fromkeys(terms_of(part))
    words |= _names_of_folders(folders)
    singles = [] if "".join(words).isascii() else [word[-1] for word in words if is_cjk(word[-1])]
    return " ".join([*words, *singles, (resource.description or "")[:MAX_DESCRIPTION]])


@lru_cache(1024)
def _names_of_folders(path: str) -> dict[str, None]:
    """Return the terms of the last folders of a path, which many resources have in common."""
    return dict.fromkeys(term for part in path.split("/")[1 - MAX_FOLDERS :] for term in terms_of(part))
