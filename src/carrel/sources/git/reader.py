"""Reader of a repository: lists, directories, documents and files. Its methods block."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from carrel.catalog.paging import decode_cursor, encode_cursor
from carrel.catalog.provider import Hit, Page
from carrel.errors import InvalidCursor, InvalidParams, MCPError, ResourceNotFound, ResourceTooLarge
from carrel.media_types import DIRECTORY, type_of_bytes, type_of_name
from carrel.sources.base import PartialVariable
from carrel.sources.content.window import invalid_window, parse_window, windows_of
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.documents.kinds import kind_of
from carrel.sources.files.read import Contents
from carrel.sources.folder.describe import display
from carrel.sources.git.complete import complete, templates
from carrel.sources.git.diff import ends, read_diff
from carrel.sources.git.entries import (
    describe_entries,
    describe_refs,
    json_lines,
    overview,
    shown_refs,
)
from carrel.sources.git.file_contents import HEAD, read_entry
from carrel.sources.git.history import (
    named_ref,
    read_blame,
    read_branch,
    read_commit,
    read_log,
    read_tag,
)
from carrel.sources.git.isolation import Isolation
from carrel.sources.git.location import GitLocation, RepositoryUris
from carrel.sources.git.objects import DamagedObject, TreeObjectEntry
from carrel.sources.git.options import GitOptions
from carrel.sources.git.process import GitFailed, GitTimeout
from carrel.sources.git.refs import Refs
from carrel.sources.git.repository import find_repository
from carrel.sources.git.revisions import OpenRepository, translate
from carrel.sources.git.search import KEY, Files, Search
from carrel.sources.git.store import BlobTooLarge, MissingObject, ObjectStore
from carrel.threads import stop_if_cancelled
from carrel.wire.resources import Resource, ResourceTemplate, TextResourceContents

if TYPE_CHECKING:
    from carrel.catalog.provider import Visible

__all__ = ["GitReader"]

T = TypeVar("T")

LISTED = ("", "branches", "tags")
MAX_DESCRIBED = 10_000  # entries of a directory that is read whole


class DirectoryPages:
    """Entries of a directory, or of the list of resources, sorted by key. Resources are created lazily.

    A cursor is valid only for the listing with the same ``name``.
    """

    def __init__(self, name: str, keys: Sequence[str], describe: Callable[[Sequence[str]], list[Resource]]) -> None:
        self.name = name
        self.keys = keys
        self.describe = describe

    def page(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return the entries whose keys come after the cursor's key.

        Raises:
            InvalidCursor: the cursor was not issued for this listing.
        """
        keys = self.keys
        if cursor is not None:
            after = decode_cursor(cursor, self.name)
            if after[:1] not in f"012{KEY}" or after[1:2] != "/":
                raise InvalidCursor
            keys = [key for key in keys if key > after]
        some = keys[:limit]
        return Page(self.describe(some), encode_cursor(some[-1], self.name) if len(keys) > len(some) else None)


class GitReader:
    """Reader of the repository at a path. ``title`` is its name in lists."""

    opened: OpenRepository

    def __init__(self, path: str, options: GitOptions, names: RepositoryUris, title: str, documents: Documents) -> None:
        self._path = path
        self._options = options
        self._names = names
        self._documents = documents
        self.title = title

    def inspect(self) -> None:
        """Open the repository.

        Raises:
            ConfigError: there is no repository, it takes objects from elsewhere, or git is not installed.
        """
        options = self._options
        repository = find_repository(self._path, alternates=options.alternates)
        isolation = Isolation(repository, options.max_memory, alternates=options.alternates)
        store = ObjectStore(repository, isolation, options.max_seconds)
        self.opened = OpenRepository(repository, store, self._names, options)
        self._search = Search(self.opened)
        self._files = Files(self.opened)

    def forget(self) -> None:
        """End all processes."""
        if hasattr(self, "opened"):
            self.opened.store.close()
            self.opened.store.isolation.close()

    def guard(self, uri: str, function: Callable[[], T]) -> T:
        """Call a function, and translate its errors.

        Raises:
            ResourceError: an object is missing or damaged, or git failed or took too long.
        """
        try:
            return function()
        except (MissingObject, DamagedObject, GitFailed, GitTimeout) as error:
            opened = self.opened
            raise translate(error, uri, opened.repository, opened.options.max_seconds) from None

    # Lists

    def resources(self) -> DirectoryPages:
        """Return the list of resources: the overview, branches, tags."""
        opened = self.opened
        fixed = {f"0/{number}": resource for number, resource in enumerate(self._overview())}
        refs = {"1": shown_refs(opened, "branch", remote=False), "2": shown_refs(opened, "tag")}

        def describe(keys: Sequence[str]) -> list[Resource]:
            found = [fixed[key] for key in keys if key in fixed]
            for digit, kind in (("1", "branch"), ("2", "tag")):
                some = [key[2:] for key in keys if key[0] == digit]
                found += describe_refs(opened, kind, [(ref, *refs[digit][ref]) for ref in some])
            return found

        keys = [*fixed, *(f"{digit}/{ref}" for digit, some in refs.items() for ref in sorted(some))]
        return DirectoryPages(f"git {opened.names.root}", keys, describe)

    def _overview(self) -> list[Resource]:
        born = self.opened.refs.read("HEAD") is not None
        uri = self.opened.names.uri
        unborn = (uri("tree", "HEAD"), uri("log", "HEAD"))
        visible = self.opened.visible
        return [
            one
            for one in overview(self.opened, self.title)
            if (born or one.uri not in unborn) and (visible is None or visible(one.uri))
        ]

    def directory(self, location: GitLocation, uri: str) -> DirectoryPages:
        """Return the entries of a directory: of a tree, folders first.

        Raises:
            ResourceNotFound: there is no such directory.
        """
        opened, kind = self.opened, location.kind
        name = f"entries {opened.names.uri(kind, location.ref, location.parts)}"
        if kind == "":
            fixed = {f"0/{number}": one for number, one in enumerate(self._overview()) if one.uri != opened.names.root}
            return DirectoryPages(name, list(fixed), lambda keys: [fixed[key] for key in keys])
        if kind in ("branches", "tags"):
            one = "branch" if kind == "branches" else "tag"
            refs = shown_refs(opened, one)
            keys = [f"1/{ref}" for ref in sorted(refs)]
            return DirectoryPages(
                name, keys, lambda keys: describe_refs(opened, one, [(key[2:], *refs[key[2:]]) for key in keys])
            )
        if kind != "tree":
            raise ResourceNotFound(uri)
        entry = opened.entry(location.ref, location.parts, uri)
        if entry is None or not entry.is_directory:
            raise ResourceNotFound(uri)
        entries = {
            f"{int(not one.is_directory)}/{one.name}": one
            for one in opened.store.tree(entry.id)
            if opened.shows_entry(location.ref, location.parts, one)
        }
        return DirectoryPages(
            name,
            sorted(entries),
            lambda keys: [
                self._documents.describe(one)
                for one in describe_entries(opened, location.ref, location.parts, [entries[key] for key in keys])
            ],
        )

    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the resources."""
        return self.guard(self.opened.names.root, lambda: self.resources().page(cursor, limit))

    def searchable(self) -> DirectoryPages:
        """Return the list of resources, and all files at HEAD."""
        listed, id = self.resources(), self.opened.refs.read("HEAD")
        files = {} if id is None else self._files.at(id)

        def describe(keys: Sequence[str]) -> list[Resource]:
            some = self._files.describe("HEAD", [files[key] for key in keys if key in files])
            return listed.describe(keys) + [self._documents.describe(one) for one in some]

        return DirectoryPages(f"searchable {self.opened.names.root}", [*listed.keys, *files], describe)

    def list_searchable(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the resources, and of all files at HEAD."""
        page = self.guard(self.opened.names.root, lambda: self.searchable().page(cursor, limit))
        if page.next_cursor is None:
            self._files.forget()
        return page

    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory."""
        location = self.opened.names.parse(uri)
        self._check(location, uri)
        return self.guard(uri, lambda: self.directory(location, uri).page(cursor, limit))

    def seen_by(self, visible: Visible) -> Self:
        """Return the reader as a caller sees the repository."""
        seen = copy(self)
        seen.opened = self.opened.seen_by(visible)
        seen._search = self._search.seen_by(seen.opened)
        return seen

    def shows(self, uri: str) -> bool:
        """Return whether a URI names nothing that is hidden from the caller."""
        try:
            self._check(self.opened.names.parse(uri), uri)
        except ResourceNotFound:
            return False
        except InvalidParams:
            pass  # the error that every caller gets
        return True

    def _check(self, location: GitLocation, uri: str) -> None:
        """Check that a location is visible as rules see it in lists, and a file whose blame is read.

        Raises:
            ResourceNotFound: it is hidden from the caller.
        """
        kind, ref, parts = location.kind, location.ref, "/".join(location.parts)
        opened = self.opened
        if opened.visible is None:
            return
        if not opened.shows(kind, ref, parts) or (kind == "blame" and not opened.shows("file", ref, parts)):
            raise ResourceNotFound(uri)

    # Reading

    def read_resource(self, uri: str) -> Contents:
        """Read a file, a document, or the entries of a directory as a JSON array of resources.

        Raises:
            ResourceNotFound: there is no such resource.
            ResourceTooLarge: it is over the limit; the message has the URIs of parts.
            InvalidParams: the URI is not valid.
        """
        location = self.opened.names.parse(uri)
        return self.guard(uri, lambda: self._read(location, uri))

    def _read(self, location: GitLocation, uri: str) -> Contents:
        opened = self.opened
        documents = {
            "branch": read_branch,
            "tag": read_tag,
            "commit": read_commit,
            "log": read_log,
            "diff": read_diff,
            "blame": read_blame,
        }
        self._check(location, uri)
        if location.kind in documents:
            return documents[location.kind](opened, location, uri)
        if location.kind == "grep":
            return self._search.read_grep(location, uri)
        if location.kind != "file":
            return self._read_directory(location, uri)
        window = parse_window(location.query)
        return read_entry(opened, self._entry(location, uri), window, uri)

    def _entry(self, location: GitLocation, uri: str) -> TreeObjectEntry:
        opened = self.opened
        entry = opened.entry(location.ref, location.parts, uri)
        if entry is None or entry.is_directory:
            raise ResourceNotFound(uri)
        return entry

    def original(self, uri: str, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Return a file of at most ``limit`` bytes as a document. Raises the errors of ``read_resource``."""
        location = self.opened.names.parse(uri)
        return self.guard(uri, lambda: self._original(location, uri, limit, known))

    def _original(self, location: GitLocation, uri: str, limit: int, known: Callable[[Hashable], bool]) -> Original:
        self._check(location, uri)
        if location.kind != "file":
            return Original(None, None, None)
        entry = self._entry(location, uri)
        name = display(entry.name)
        if entry.is_submodule or entry.is_link:
            return Original(None, None, None)
        kind = type_of_name(name)
        if kind_of(kind) is not None and known(entry.id):
            return Original(kind, entry.id, None)
        try:
            _, data = self.opened.store.read(entry.id, limit)
        except BlobTooLarge as error:
            raise ResourceTooLarge(
                uri,
                f"The document has {error.size:,} bytes; {limit:,} is the limit for turning it into text",
            ) from None
        return Original(kind if kind_of(kind) is not None else type_of_bytes(data[:HEAD], name), entry.id, data)

    def _read_directory(self, location: GitLocation, uri: str) -> Contents:
        window, listing = parse_window(location.query), self.directory(location, uri)
        keys, limit = listing.keys, self.opened.options.max_size
        total = len(keys) + 2  # lines: one for each entry, and the brackets
        first, last = 1, total
        if window is not None:
            if window.unit == "bytes":
                raise invalid_window("lines", "a directory has lines, one for each entry, not bytes")
            last = total if window.unit == "tail" or window.last is None else min(window.last, total)
            first = max(total - (window.last or 1) + 1, 1) if window.unit == "tail" else window.first
            if first > total:
                raise invalid_window("lines", f"the directory has {total:,} lines")
        begin, end = max(first - 2, 0), max(min(last - 1, len(keys)), 0)
        if end - begin > MAX_DESCRIBED:
            raise ResourceTooLarge(
                uri,
                f"The directory has {len(keys):,} entries, and {MAX_DESCRIBED:,} are read at once; read some of them, "
                f"{windows_of(uri, f'lines={first}-{first + 999}')}",
            )
        lines = list(json_lines(listing.describe(keys[begin:end])))
        if end < len(keys) and len(lines) > 2:
            lines[-2] = lines[-2].rstrip(b"\n") + b",\n"
        text = b"".join(lines[0 if first == 1 else 1 : None if last == total else -1])
        if len(text) > limit:
            raise ResourceTooLarge(
                uri,
                f"The entries of the directory take more than {limit:,} bytes; read some of them, "
                f"{windows_of(uri, f'lines={first}-{first + max(len(lines) * limit // len(text) - 2, 1)}')}",
            )
        return TextResourceContents(uri, text.decode(), mime_type=DIRECTORY)

    # Templates, completion, search

    def templates(self) -> list[ResourceTemplate]:
        """Return the resource templates."""
        file = f"{self.opened.names.root}/file/{{ref}}/{{+path}}"
        return [*templates(self.opened.names, self.title), *self._documents.templates(file, self.title)]

    def complete(self, variable: PartialVariable) -> list[str]:
        """Suggest values for a variable of a template."""
        return self.guard(self.opened.names.root, lambda: complete(self.opened, self._search, variable))

    def search(self, query: str, limit: int) -> list[Hit]:
        """Find files at HEAD by name and contents, and commits by their subjects."""
        hits = self.guard(self.opened.names.root, lambda: self._search.search(query, limit))
        return [msgspec.structs.replace(hit, resource=self._documents.describe(hit.resource)) for hit in hits]

    # Changes

    def fingerprints(self, refs: Refs, uris: Iterable[str], *, listed: bool = True) -> dict[str, Hashable]:
        """Return fingerprints of these resources and of the listed resources. A fingerprint changes when the resource's
        target changes.

        ``refs`` are the refs to read; they may be an earlier snapshot.
        """
        opened = copy(self.opened)
        opened.refs = refs
        found: dict[str, Hashable] = {}
        for uri in uris:
            stop_if_cancelled()
            try:
                found[uri] = self.guard(uri, partial(self._fingerprint, opened, uri))
            except MCPError:
                pass  # it does not exist
        if not listed:
            return found
        name, head, id = opened.names.uri, refs.head(), refs.read("HEAD")
        for directory, kind in (("branches", "branch"), ("tags", "tag")):
            found[name(directory)] = hash(tuple(sorted(shown_refs(opened, kind).items())))
            for ref, (whole, one) in shown_refs(opened, kind, remote=False).items():
                found[name(kind, ref)] = (one, whole == head)
        if id is not None:
            found[name("tree", "HEAD")] = found[name("log", "HEAD")] = id
        return found

    @staticmethod
    def _fingerprint(opened: OpenRepository, uri: str) -> Hashable:
        """Return the object ids that a URI resolves to.

        Raises:
            ResourceError: the URI does not resolve to an object.
            InvalidParams: the URI is not valid.
        """
        location = opened.names.parse(uri)
        if location.kind == "diff":
            return ends(opened, location, uri)
        if location.kind in ("branch", "tag"):
            whole, id = named_ref(opened, location, uri)
            return id, whole == opened.refs.head()
        if location.kind in LISTED:
            raise ResourceNotFound(uri)  # existing resources of this kind are listed
        id = opened.resolve(location.ref, uri)
        if location.kind not in ("tree", "file", "blame"):
            return id
        entry = opened.store.entry(opened.store.commit(id).tree, location.parts)
        if entry is None:
            raise ResourceNotFound(uri)
        return entry.id
