"""Reader of skills: every file of a skill under ``skill://``, byte for byte, and the manifests of skills.

``skills.folder`` finds skills and their files. Caches hold only data of unchanged files and directories, so that
responses always match the disk.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Self

from carrel.catalog.provider import Hit, Page, Visible
from carrel.errors import InvalidCursor, InvalidParams, ResourceNotFound, ResourceTooLarge
from carrel.media_types import type_of_bytes, type_of_text
from carrel.protocol.extensions.skills import MAX_BYTES, SKILL_FILE
from carrel.sources.base import PartialVariable, translate
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.words import words_of
from carrel.sources.folder.describe import describe
from carrel.sources.folder.position import START, Parts, TreePosition, position_of
from carrel.sources.folder.reader import FolderReader
from carrel.sources.folder.sandbox import OpenNode
from carrel.sources.folder.tree import TreeEntry
from carrel.sources.folder.tree_view import TreeView
from carrel.sources.folder.work import PAGE, WHOLE, Work
from carrel.sources.skills.folder import SkillFolder, Stop, read_chunks
from carrel.uri.intervals import Intervals
from carrel.uri.parse import UriError, encode_path, file_path, normalize
from carrel.wire.resources import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.skills import Skill, SkillResource

__all__ = ["SCHEME", "SkillsReader"]

SCHEME = "skill://"
TEMPLATE = SCHEME + "{+path}"
HEAD = 8192  # bytes used to detect a MIME type
LISTED = 1000  # entries of a directory read at a time
LOOKUP = 50.0  # microseconds of work to open a directory


class SkillsReader(FolderReader[SkillFolder]):
    """Reader of folders of skills. If several have the same top-level name, the first folder takes precedence."""

    def __init__(self) -> None:
        super().__init__()
        self._homes: dict[str, tuple[SkillFolder, Parts]] = {}
        self._tops: list[list[str]] = []

    def forget(self) -> None:
        """Clear the caches."""
        super().forget()
        self._homes, self._tops = {}, []

    def seen_by(self, visible: Visible, within: Intervals | None = None) -> Self:
        """Return the reader as a caller sees it. A skill whose SKILL.md is hidden is not in it."""
        view = super().seen_by(visible, within)
        view._homes, view._tops = {}, []
        return view

    # URIs

    def _find_homes(self) -> Mapping[str, tuple[SkillFolder, Parts]]:
        """Return the folder and the path in it for each URI authority."""
        tops = [folder.tops() for folder in self.folders]
        if len(tops) != len(self._tops) or any(new is not old for new, old in zip(tops, self._tops, strict=True)):
            homes: dict[str, tuple[SkillFolder, Parts]] = {}
            for folder, names in zip(self.folders, tops, strict=True):
                for name in names:
                    homes.setdefault(authority_of(name), (folder, () if folder.name else (name,)))
            self._homes, self._tops = homes, tops
        return self._homes

    def locate(self, uri: str) -> tuple[SkillFolder, Parts]:
        """Resolve a URI to a folder and a path in it, whether or not the file exists.

        Raises:
            ResourceNotFound: the folder does not exist.
            InvalidParams: the URI cannot be the URI of a file.
        """
        authority, slash, path = uri.removeprefix(SCHEME).removesuffix("/").partition("/")
        home = self._find_homes().get(authority) if uri.startswith(SCHEME) and "?" not in uri else None
        if home is None:
            raise ResourceNotFound(uri)
        folder, top = home
        if not slash:
            return folder, top
        try:
            # Paths have the same rules for names as ``file:`` URIs, except that there is no drive.
            parts = tuple(file_path(f"file:///{path}", windows=False).split("/")[1:])
        except UriError as error:
            raise InvalidParams(
                f"Invalid params: uri: {error}", {"uri": uri[:1000], "reason": "invalid"}, parameter="uri"
            ) from None
        if "" in parts or (os.name == "nt" and ":" in "".join(parts)):
            raise ResourceNotFound(uri)
        return folder, top + parts

    def uri(self, folder: SkillFolder, parts: Parts) -> str:
        names = (folder.name, *parts) if folder.name else parts
        return SCHEME + "/".join([authority_of(names[0]), *map(encode_name, names[1:])]) if names else SCHEME

    def _resource(self, folder: SkillFolder, entry: TreeEntry, frontmatter: dict[str, Any] | None) -> Resource:
        """Return the ``Resource`` for a file or a directory; SKILL.md gets name and description of its frontmatter."""
        name = entry.parts[-1] if entry.parts else folder.name
        whole = not isinstance(folder.tree, TreeView)
        resource = describe(self.uri(folder, entry.parts), name, entry.info, whole=whole)
        if frontmatter is not None:
            resource.name, resource.description = frontmatter["name"], frontmatter["description"]
        return resource

    # Skills

    def list_skills(self, cursor: str | None, limit: int) -> Page[Skill]:
        """Return a page of up to ``limit`` skills, sorted by path, with each skill before its nested skills.

        Raises:
            InvalidCursor: the cursor was not issued for these folders.
        """
        found: list[Skill] = []
        index, position = self._read_cursor(cursor, "skills")
        work, described = Work(PAGE), False
        for number in range(index, len(self.folders)):
            folder = self.folders[number]
            if work.is_over:
                return Page(found, self._cursor(folder, position, "skills"))
            with closing(self._walk(folder, position, work)) as stops:
                for stop in stops:
                    if stop.frontmatter is None:
                        continue
                    if len(found) == limit or (work.is_over and described):
                        return Page(
                            found, self._cursor(folder, TreePosition("directory", stop.visited.parts), "skills")
                        )
                    skill = self._describe_skill(folder, stop.visited.parts, stop.frontmatter, work)
                    described = True
                    if skill is not None:
                        found.append(skill)
            if work.position is not None:
                return Page(found, self._cursor(folder, work.position, "skills"))
            position = START
        return Page(found)

    def get_skill(self, uri: str) -> Skill:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: the skill does not exist.
            InvalidParams: the URI cannot be the URI of a file.
        """
        folder, parts = self.locate(uri)
        skill = None
        try:
            if parts and parts[-1] == SKILL_FILE and not uri.endswith("/") and folder.is_directory(parts[:-1]):
                frontmatter = folder.skill_at(parts[:-1])
                if frontmatter is not None:
                    skill = self._describe_skill(folder, parts[:-1], frontmatter)
        except OSError as error:
            raise translate(error, uri) from None
        if skill is None:
            raise ResourceNotFound(uri)
        return skill

    def _describe_skill(
        self, folder: SkillFolder, parts: Parts, frontmatter: dict[str, Any], work: Work | None = None
    ) -> Skill | None:
        files = folder.manifest(parts, work)
        if not files or files[0].parts[-1] != SKILL_FILE:  # too many, or gone by now
            return None
        resources = [SkillResource(self.uri(folder, file.parts), f"sha256:{file.digest}", file.size) for file in files]
        return Skill(resources[0].uri, frontmatter, resources)

    # Lists

    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the files of all skills. Files of a directory come before files of its subdirectories.

        Raises:
            InvalidCursor: the cursor was not issued for these folders.
        """
        found: list[Resource] = []
        index, position = self._read_cursor(cursor, "files")
        last = START
        work = Work(PAGE)
        for number in range(index, len(self.folders)):
            folder = self.folders[number]
            if work.is_over:
                return Page(found, self._cursor(folder, position, "files"))
            with closing(self._walk(folder, position, work)) as stops:
                for stop in stops:
                    for entry in folder.tree.files(stop.visited, work):
                        if len(found) == limit:
                            return Page(found, self._cursor(folder, last, "files"))
                        found.append(self._resource(folder, entry, frontmatter_for(entry, stop)))
                        last = TreePosition("file", entry.parts)
            if work.position is not None:
                return Page(found, self._cursor(folder, work.position, "files"))
            position = last = START
        return Page(found)

    def _walk(self, folder: SkillFolder, after: TreePosition, work: Work) -> Generator[Stop, None, None]:
        """Visit the skill directories of a folder, except those shadowed by another folder's top-level name."""
        homes = self._find_homes()
        with closing(folder.walk(after, work)) as stops:
            for stop in stops:
                top = () if folder.name else stop.visited.parts[:1]
                if homes.get(authority_of(folder.name or top[0])) == (folder, top):
                    yield stop

    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory in a skill, or of one that contains skills; directories first.

        Raises:
            ResourceNotFound: there is no such directory.
            InvalidCursor: the cursor was not issued for this directory.
        """
        return self._entries(uri, cursor, limit, Work(PAGE))

    def _entries(self, uri: str, cursor: str | None, limit: int, work: Work) -> Page[Resource]:
        folder, parts = self.locate(uri)
        listing = f"skill entries {self.uri(folder, parts)}"
        position = position_of(cursor, listing)
        try:
            inside = folder.in_skill(parts)
            if not folder.is_directory(parts) or not (inside or self._leads_to_skill(folder, parts, work)):
                raise ResourceNotFound(uri)
            entries, then = folder.tree.children(parts, position, limit, work)
            found = []
            for number, entry in enumerate(entries):
                if work.is_over and number:
                    before = entries[number - 1]
                    then = TreePosition("directory" if before.is_directory else "file", before.parts[-1:])
                    break
                if self._belongs(folder, entry, inside, work):
                    found.append(entry)
        except OSError as error:
            raise translate(error, uri) from None
        frontmatter = folder.skill_at(parts) if inside else None
        items = [
            self._resource(folder, entry, frontmatter if entry.parts[-1] == SKILL_FILE else None) for entry in found
        ]
        return Page(items, None if then is None else then.cursor(listing))

    def _belongs(self, folder: SkillFolder, entry: TreeEntry, inside: bool, work: Work) -> bool:
        if not entry.is_directory:
            return inside
        try:
            if inside:
                work.spent += LOOKUP
                return folder.is_directory(entry.parts)
            return folder.is_directory(entry.parts) and self._leads_to_skill(folder, entry.parts, work)
        except OSError as error:
            folder.tree.notices.pass_over(entry.parts, error)
            return False

    @staticmethod
    def _leads_to_skill(folder: SkillFolder, parts: Parts, work: Work) -> bool:
        own = Work(WHOLE)
        with closing(folder.walk(TreePosition("directory", parts), own, parts)) as stops:
            leads = next(stops, None) is not None
        work.spent += own.spent
        if own.position is not None:
            folder.tree.notices.warn(parts, "is left out: it takes too long to find a skill in it")
        return leads

    def _cursor(self, folder: SkillFolder, position: TreePosition, listing: str) -> str:
        return position.cursor(f"{listing} {folder.path}")

    def _read_cursor(self, cursor: str | None, listing: str) -> tuple[int, TreePosition]:
        """Return the index of the folder in which a list continues, and the position in it."""
        if cursor is None:
            return 0, START
        for index, folder in enumerate(self.folders):
            try:
                return index, position_of(cursor, f"{listing} {folder.path}")
            except InvalidCursor:
                continue
        raise InvalidCursor

    # Reading

    def read_resource(self, uri: str) -> TextResourceContents | BlobResourceContents:
        """Read a file, byte for byte, or the entries of a directory, in JSON.

        Only UTF-8 is returned as text, because digests are of bytes.

        Raises:
            ResourceNotFound: there is no such file in a skill.
            ResourceForbidden: it is not shared, or may not be read.
            ResourceTooLarge: it is larger than a skill may be.
            InvalidParams: the URI cannot be the URI of a file.
        """
        folder, parts = self.locate(uri)
        try:
            with folder.tree.open(parts) as node:
                if node.handle is None:
                    if uri.endswith("/") or not (folder.is_directory(parts[:-1]) and folder.in_skill(parts[:-1])):
                        raise ResourceNotFound(uri)
                    return read_exactly(node, uri, parts[-1])
        except OSError as error:
            raise translate(error, uri) from None
        items: list[Resource] = []
        cursor: str | None = None
        work = Work(WHOLE)
        while True:
            page = self._entries(uri, cursor, LISTED, work)
            items += page.items
            if work.is_over:
                raise ResourceTooLarge(
                    uri, "The directory has too many entries to be read whole; use resources/directory/read"
                )
            cursor = page.next_cursor
            if cursor is None:
                return directory_contents(uri, items)

    # Templates, completion, search

    def templates(self) -> Sequence[ResourceTemplate]:
        """Return the one URI template: a file of a skill by its path."""
        return [ResourceTemplate(TEMPLATE, "skill file", description="A file of a skill, by its path")]

    def complete(self, variable: PartialVariable) -> list[str]:
        """Complete the path of a file by prefix, ignoring case."""
        wanted = variable.value.casefold()
        uris = (resource.uri.removeprefix(SCHEME) for resource in self._served())
        return [path for path in uris if path.casefold().startswith(wanted)]

    def search(self, query: str, limit: int) -> list[Hit]:
        """Search files by the words in their paths, and skills also by their names and descriptions."""
        words = words_of(query)
        hits: list[Hit] = []
        for resource in self._served() if words else ():
            score = rate(words, resource)
            if score:
                hits.append(Hit(resource, score))
        hits.sort(key=lambda hit: -hit.score)
        return hits[:limit]

    def _served(self) -> Iterator[Resource]:
        work = Work(WHOLE)
        for folder in self.folders:
            for stop in self._walk(folder, START, work):
                for entry in folder.tree.files(stop.visited, work):
                    yield self._resource(folder, entry, frontmatter_for(entry, stop))

    def survey(self) -> dict[str, Any]:
        """Return the URIs of all skill files and the directories that contain them; SKILL.md with its frontmatter."""
        found: dict[str, Any] = {}
        for folder in self.folders:
            work = Work()
            for stop in self._walk(folder, START, work):
                for depth in range(not folder.name, len(stop.visited.parts) + 1):
                    found.setdefault(self.uri(folder, stop.visited.parts[:depth]))
                for entry in folder.tree.files(stop.visited, work):
                    found[self.uri(folder, entry.parts)] = frontmatter_for(entry, stop)
        return found


def authority_of(name: str) -> str:
    """Return a name as the authority of a URI, which is case-insensitive."""
    encoded = encode_name(name)
    return normalize(SCHEME + encoded).removeprefix(SCHEME) if "%" in encoded else encoded.lower()


def encode_name(name: str) -> str:
    return encode_path((name,))


def frontmatter_for(entry: TreeEntry, stop: Stop) -> dict[str, Any] | None:
    """Return the frontmatter for a skill's SKILL.md; None for other files."""
    return stop.frontmatter if entry.parts[-1] == SKILL_FILE else None


def read_exactly(node: OpenNode, uri: str, name: str) -> TextResourceContents | BlobResourceContents:
    """Read an open file so that its exact bytes can be recovered from the contents: text if UTF-8, else a blob.

    Raises:
        ResourceTooLarge: it is larger than a skill may be.
    """
    data = b"".join(read_chunks(node.descriptor, MAX_BYTES + 1))
    if len(data) > MAX_BYTES:
        raise ResourceTooLarge(uri, f"The file has more than {MAX_BYTES:,} bytes, which is more than a skill may have")
    if b"\0" not in data:
        try:
            return TextResourceContents(uri, data.decode(), mime_type=type_of_text(name))
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri, data, mime_type=type_of_bytes(data[:HEAD], name))


def rate(words: list[str], resource: Resource) -> float:
    """Return the search score of a file: by its name or its skill's name, path, then description; 0 for no match."""
    name, path = resource.name.casefold(), resource.uri.removeprefix("skill://").casefold()
    description = (resource.description or "").casefold()
    if " ".join(words) in (name, name.rpartition(".")[0]):
        return 1.0
    for score, text in ((0.8, name), (0.6, path), (0.4, f"{path} {description}")):
        if all(word in text for word in words):
            return score
    return 0.0
