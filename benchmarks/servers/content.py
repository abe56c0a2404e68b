"""Contents of every server in the comparison, so that all servers do the same work.

The scripts of this directory run in separate environments, so this module has no imports.
"""

NAME = "bench"
VERSION = "1.0"

SMALL_URI = "bench://small"
SMALL_TEXT = "A small text, the size of a note that somebody keeps at hand."
CHANGING_URI = "bench://changing"
CHANGING_TEXT = "The text whose changes are announced."
TEXT_URI = "bench://text"
BLOB_URI = "bench://blob"
TEMPLATE = "book://{author}/{title}"

RESOURCES = 1_000
"""How many resources a full server lists."""

SIZE = 1 << 20
"""Bytes in each of the two large resources."""


def book(author: str, title: str) -> str:
    """The text that a read of `book://{author}/{title}` answers."""
    return f"{title}, written by {author}."


def large_text() -> str:
    """1 MiB of prose as UTF-8: lines, quotation marks, and one word in a hundred outside ASCII."""
    line = 'A reading room opens at nine; "the shelves," says the sign, "are arranged by author". '
    page = (line * 7 + "藏書樓\n").encode()
    return (page * (SIZE // len(page) + 1))[:SIZE].decode(errors="ignore")


def large_blob() -> bytes:
    """1 MiB of bytes that are no text."""
    return bytes(range(256)) * (SIZE // 256)


class Entry:
    """One resource of fixed content, as every server registers it."""

    def __init__(self, uri: str, name: str, description: str, body: "str | bytes") -> None:
        self.uri = uri
        self.name = name
        self.description = description
        self.body = body
        self.mime_type = "text/plain" if isinstance(body, str) else "application/octet-stream"


def entries(stock: str) -> "list[Entry]":
    """The resources of a `small` server (two) or a `full` one (`RESOURCES` of them)."""
    few = [
        Entry(SMALL_URI, "small", "A small text.", SMALL_TEXT),
        Entry(CHANGING_URI, "changing", "A text that changes.", CHANGING_TEXT),
    ]
    if stock == "small":
        return few
    large = [
        Entry(TEXT_URI, "text", "A large text.", large_text()),
        Entry(BLOB_URI, "blob", "Many bytes.", large_blob()),
    ]
    return [*few, *large, *map(record, range(RESOURCES - len(few) - len(large)))]


def record(number: int) -> Entry:
    """One of the resources that fill the list."""
    name = f"record-{number:04}"
    return Entry(f"bench://record/{number:04}", name, f"Record {number} of the catalogue of the reading room.", name)
