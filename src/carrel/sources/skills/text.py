"""Byte-exact reading of skill files, and their search score."""

from __future__ import annotations

from carrel.errors import ResourceTooLarge
from carrel.media_types import type_of_bytes, type_of_text
from carrel.protocol.extensions.skills import MAX_BYTES
from carrel.sources.folder.sandbox import OpenNode
from carrel.sources.skills.folder import read_chunks
from carrel.wire.resources import BlobResourceContents, Resource, TextResourceContents

__all__ = ["rate", "read_exactly"]

HEAD = 8192  # bytes used to detect a MIME type


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
