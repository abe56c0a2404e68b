"""Trees, commits and tags: parsing of git's objects.

https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

from carrel.sources.content.text import decode
from carrel.sources.folder.describe import timestamp

__all__ = [
    "UNSAFE",
    "Commit",
    "DamagedObject",
    "Person",
    "Tag",
    "TreeObjectEntry",
    "parse_commit",
    "parse_tag",
    "parse_tree",
]

DIRECTORY, LINK, SUBMODULE = 0o040000, 0o120000, 0o160000
KIND = 0o170000
HEXADECIMAL = frozenset("0123456789abcdef")
UNSAFE = ("", ".", "..")


class DamagedObject(Exception):
    """The object does not have the form of its type."""


class TreeObjectEntry(NamedTuple):
    """Entry of a tree. Names are decoded as by ``os.fsdecode`` on systems with UTF-8."""

    name: str
    mode: int
    id: str

    @property
    def is_directory(self) -> bool:
        return self.mode & KIND == DIRECTORY

    @property
    def is_link(self) -> bool:
        return self.mode & KIND == LINK

    @property
    def is_submodule(self) -> bool:
        return self.mode & KIND == SUBMODULE


class Person(NamedTuple):
    """Author, committer or tagger, with the time in seconds since 1970 and the offset of the time zone in minutes."""

    name: str
    email: str
    time: int
    offset: int

    @property
    def date(self) -> str:
        """The time as ISO 8601; empty where it is out of range."""
        found = timestamp(self.time + self.offset * 60)
        hours, minutes = divmod(abs(self.offset), 60)
        zone = f"{'-' if self.offset < 0 else '+'}{hours:02}:{minutes:02}" if self.offset else "Z"
        return "" if found is None else found.removesuffix("Z") + zone


class Commit(NamedTuple):
    """A commit."""

    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return subject_of(self.message)


class Tag(NamedTuple):
    """An annotated tag: the id and the type of its object."""

    object: str
    kind: str
    tagger: Person
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return subject_of(self.message)


def subject_of(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:500] if lines else ""


def parse_tree(data: bytes, digits: int) -> list[TreeObjectEntry]:
    """Parse a tree. Entries that no path can lead to (``..``, or with a slash or a NUL) are left out.

    Raises:
        DamagedObject: the data is not a tree.
    """
    found, position, size = [], 0, digits // 2
    while position < len(data):
        space = data.find(b" ", position, position + 8)
        end = data.find(b"\0", space)
        if space < 0 or end < 0 or end + size >= len(data) + 1 or end + 1 + size > len(data):
            raise DamagedObject
        try:
            mode = int(data[position:space], 8)
        except ValueError:
            raise DamagedObject from None
        name = data[space + 1 : end].decode("utf-8", "surrogateescape")
        if name not in UNSAFE and "/" not in name:
            found.append(TreeObjectEntry(name, mode, data[end + 1 : end + 1 + size].hex()))
        position = end + 1 + size
    return found


def split(data: bytes) -> tuple[dict[bytes, list[bytes]], bytes]:
    """Split an object into its header fields and its message."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        if not line.startswith(b" "):  # continues a signature
            key, _, value = line.partition(b" ")
            fields.setdefault(key, []).append(value)
    return fields, message


def parse_commit(data: bytes, digits: int) -> Commit:
    """Parse a commit. Text is decoded by the encoding that it names, else by the one that is recognised.

    Raises:
        DamagedObject: the data is not a commit.
    """
    fields, message = split(data)
    encoding = fields.get(b"encoding", [b""])[0]
    return Commit(
        id_of(fields.get(b"tree", [b""])[0], digits),
        tuple(id_of(parent, digits) for parent in fields.get(b"parent", ())),
        person(fields.get(b"author", [b""])[0], encoding),
        person(fields.get(b"committer", [b""])[0], encoding),
        text_of(message, encoding),
    )


def parse_tag(data: bytes, digits: int) -> Tag:
    """Parse an annotated tag.

    Raises:
        DamagedObject: the data is not a tag.
    """
    fields, message = split(data)
    encoding = fields.get(b"encoding", [b""])[0]
    return Tag(
        id_of(fields.get(b"object", [b""])[0], digits),
        fields.get(b"type", [b""])[0].decode("ascii", "replace"),
        person(fields.get(b"tagger", [b""])[0], encoding),
        text_of(message, encoding),
    )


def id_of(text: bytes, digits: int) -> str:
    found = text.decode("ascii", "replace")
    if len(found) != digits or not HEXADECIMAL.issuperset(found):
        raise DamagedObject
    return found


def person(data: bytes, encoding: bytes) -> Person:
    who, _, when = data.rpartition(b"> ")
    name, _, email = who.partition(b"<")
    moment, _, zone = when.partition(b" ")
    try:
        seconds = int(moment)
        offset = int(zone[1:3]) * 60 + int(zone[3:5])
    except ValueError:
        seconds = offset = 0
    return Person(
        text_of(name, encoding).strip(),
        text_of(email, encoding).strip(),
        seconds,
        -offset if zone[:1] == b"-" else offset,
    )


def text_of(data: bytes, encoding: bytes) -> str:
    if encoding:
        try:
            return data.decode(codecs.lookup(encoding.decode("ascii", "replace")).name, "replace")
        except (LookupError, ValueError):  # not known, or not an encoding of text
            pass
    text = decode(data)
    return data.decode("utf-8", "replace") if text is None else text.text
