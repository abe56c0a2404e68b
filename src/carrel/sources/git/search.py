"""Search at a revision: the names of files, their contents, and the subjects of the latest commits; and all files of a
commit in one list, with the ids of their contents, for a search index.

The search is for fixed strings only, so the time is linear in the amount of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from heapq import nlargest
from itertools import groupby
from typing import Self

import msgspec

from carrel.catalog.provider import Hit
from carrel.errors import InvalidParams
from carrel.log import Log
from carrel.media_types import type_of_name
from carrel.sources.content.text import UTF8, decode_as, recognise
from carrel.sources.content.words import words_of
from carrel.sources.files.search import rate
from carrel.sources.folder.describe import display
from carrel.sources.git.entries import describe_entries
from carrel.sources.git.history import log_of, path_of, walk
from carrel.sources.git.location import GitLocation
from carrel.sources.git.objects import UNSAFE, TreeObjectEntry
from carrel.sources.git.process import GitFailed, GitTimeout, pieces
from carrel.sources.git.revisions import OpenRepository
from carrel.sources.git.store import BlobTooLarge
from carrel.sources.sized_cache import SizedCache
from carrel.wire.resources import Resource, TextResourceContents

__all__ = ["KEY", "VERSION", "Files", "Search"]

SECONDS = 3.0  # for a search in contents, which then returns the matches found so far
MAX_PATHS = 64 * 1024 * 1024  # bytes of the names of all files
MAX_LINE = 300  # characters of a line that was found
MAX_LINES = 1000
MAX_WORDS = 20
RECENT = 1000  # commits whose subjects are searched


class Search:
    """Search in a repository, with the names of the files, and the latest commits, kept for the last revisions."""

    def __init__(self, opened: OpenRepository) -> None:
        self._opened = opened
        self._kept: SizedCache[tuple[str, str], list[str]] = SizedCache(4)

    def seen_by(self, opened: OpenRepository) -> Self:
        """Return the search in the repository as a caller sees it."""
        seen = copy(self)
        seen._opened = opened
        return seen

    def paths(self, id: str) -> list[str]:
        """Return the paths of all files of a commit, of at most ``MAX_PATHS`` bytes."""
        return self._keep("paths", id)

    def recent(self, id: str) -> list[str]:
        """Return the ids of the latest commits of a history."""
        return self._keep("recent", id)

    def _keep(self, what: str, id: str) -> list[str]:
        kept = self._kept.get((what, id))
        if kept is not None:
            return kept
        opened = self._opened
        if what == "recent":
            found, _ = walk(log_of(opened, id, GitLocation("log"), RECENT), None, RECENT)
        else:
            command = ("ls-tree", "-r", "-z", "--name-only", id)
            data = opened.output(MAX_PATHS, *command) or b""
            found = data.decode("utf-8", "surrogateescape").split("\0")[:-1]
        self._kept.put((what, id), found, 1)
        return found

    # Search

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return files at HEAD, by name and by content, and commits, best first."""
        opened = self._opened
        words = [word for word in words_of(query) if "\0" not in word][:MAX_WORDS]
        id = opened.refs.read("HEAD") if words and limit > 0 else None
        if id is None or any("\ud800" <= character <= "\udfff" for character in query):
            return []
        found: dict[str, Hit] = {}
        for path, score in self._names(words, id, limit):
            found[path] = Hit(self._file(path), score)
        for path, number, line in self._contents(words, id, GitLocation("grep", "HEAD"), limit * 5):
            snippet = f"{number}: {line.strip()[:MAX_LINE]}"
            hit = found.get(path)
            score = 0.45 if hit is None else hit.score
            if hit is None or hit.snippet is None:
                found[path] = Hit(self._file(path) if hit is None else hit.resource, score, snippet)
        hits = [*found.values(), *self._commits(words, id)]
        return nlargest(limit, hits, key=lambda hit: hit.score)

    def _file(self, path: str) -> Resource:
        name = path.rpartition("/")[2]
        uri = self._opened.names.uri("file", "HEAD", tuple(path.split("/")))
        return Resource(uri, display(name), mime_type=type_of_name(name))

    def _names(self, words: list[str], id: str, limit: int) -> list[tuple[str, float]]:
        found = []
        try:
            paths = self.paths(id)
        except (GitFailed, GitTimeout):  # damaged trees; contents may still be found
            paths = []
        for path in paths:
            folded = path.casefold()
            if all(word in folded for word in words) and self._opened.shows("file", "HEAD", path):
                folder, _, name = folded.rpartition("/")
                found.append((path, rate(words, name, len(folder))))
        return nlargest(limit, found, key=lambda match: match[1])

    def _commits(self, words: list[str], id: str) -> Iterator[Hit]:
        opened = self._opened
        digits = words[0] if len(words) == 1 and len(words[0]) >= 7 else None
        for one in self.recent(id):
            commit = opened.store.commit(one)
            folded = commit.subject.casefold()
            is_it = digits is not None and one.startswith(digits)
            if (is_it or all(word in folded for word in words)) and opened.shows("commit", one):
                resource = Resource(opened.names.uri("commit", one), commit.subject[:200] or one[:10])
                yield Hit(resource, 1.0 if is_it else 0.4)

    def _contents(self, words: list[str], id: str, location: GitLocation, limit: int) -> Iterator[tuple[str, int, str]]:
        """Yield path, number and text of lines that have a word, of visible files that have all of the words.

        ``location`` has the ref of the commit, and the path to search in. At most ``limit`` lines are yielded.
        """
        path = path_of(location)
        command = ["grep", "--no-color", "-I", "-i", "-n", "-z", "-F", "--full-name", "--all-match"]
        for index, word in enumerate(words):
            command += [*(["--or"] if index else []), "-e", word]
        command += [id, "--", *([path] if path else [])]
        encodings: dict[str, str] = {}
        shown: dict[str, bool] = {}
        left, seconds = b"", min(SECONDS, self._opened.options.max_seconds)
        try:
            for data in pieces(self._opened.store.isolation, seconds, *command):
                *lines, left = (left + data).split(b"\n")
                for line in lines:
                    name, _, remaining = line.partition(b"\0")
                    number, _, text = remaining.partition(b"\0")
                    if not number.isdigit():
                        continue
                    # git puts the revision before the path.
                    where = name.partition(b":")[2].decode("utf-8", "surrogateescape")
                    if where not in shown:
                        shown[where] = self._opened.shows("file", location.ref, where)
                    if not shown[where]:
                        continue
                    yield where, int(number), self._decode(text[: 4 * MAX_LINE], id, where, encodings)
                    limit -= 1
                    if not limit:
                        return
        except (GitFailed, GitTimeout):
            return  # it fails where nothing is found

    def _decode(self, line: bytes, id: str, path: str, encodings: dict[str, str]) -> str:
        """Decode a line in the encoding of its file, which is kept in ``encodings``."""
        if recognise(line, truncated=True) == UTF8:
            return decode_as(line, UTF8)
        if path not in encodings:
            store = self._opened.store
            entry = store.entry(store.commit(id).tree, path.split("/"))
            try:
                data = b"" if entry is None else store.read(entry.id, self._opened.options.max_size)[1]
            except BlobTooLarge as error:
                data = error.head
            encodings[path] = recognise(data, truncated=True) or UTF8
        return decode_as(line, encodings[path])

    def read_grep(self, location: GitLocation, uri: str) -> TextResourceContents:
        """Read the lines that have the words of a query, at a revision: path, number and text.

        Raises:
            InvalidParams: there is no query.
        """
        query = location.parameters.get("query", "")
        words = [word for word in words_of(query) if "\0" not in word][:MAX_WORDS]
        if not words or any("\udc80" <= character <= "\udfff" for character in query):
            raise InvalidParams("Invalid params: query: the query has no words", parameter="query")
        id = self._opened.resolve(location.ref, uri)
        lines = [
            f"{display(where)}:{number}: {text[:MAX_LINE]}\n"
            for where, number, text in self._contents(words, id, location, MAX_LINES)
        ]
        more = f"(the first {MAX_LINES:,} lines; ?path= narrows the search)\n" if len(lines) == MAX_LINES else ""
        return TextResourceContents(uri, "".join(lines) + more, mime_type="text/plain")


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
            for data in self._opened.pieces("ls-tree", "-r", "-z", id):
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
