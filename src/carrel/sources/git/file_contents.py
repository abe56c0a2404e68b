"""Contents of files at a revision: whole files, windows, links, submodules and pointers of Git LFS."""

from __future__ import annotations

from typing import Any

from carrel.errors import InvalidParams, ResourceTooLarge
from carrel.media_types import type_of_bytes, type_of_text
from carrel.sources.content.text import decode as detect
from carrel.sources.content.text import describe_encoding
from carrel.sources.content.window import Window
from carrel.sources.files.read import Contents, read_window, too_large_of
from carrel.sources.folder.describe import display
from carrel.sources.git.entries import LINK, SUBMODULE
from carrel.sources.git.objects import TreeObjectEntry
from carrel.sources.git.revisions import OpenRepository
from carrel.sources.git.store import BlobTooLarge
from carrel.wire.resources import BlobResourceContents, TextResourceContents

__all__ = ["HEAD", "read_entry"]

HEAD = 8192  # bytes used to detect the type of a file
POINTER = b"version https://git-lfs.github.com/spec/"
MAX_POINTER = 1024  # bytes, by the specification of LFS


def read_entry(opened: OpenRepository, entry: TreeObjectEntry, window: Window | None, uri: str) -> Contents:
    """Read a file, or a window of it. A link is the path that it leads to, a submodule the commit that it is at.

    Raises:
        ResourceTooLarge: it exceeds the limit. The message suggests the URIs of smaller windows.
        InvalidParams: the window is not valid for this file.
    """
    options = opened.options
    if entry.is_submodule:
        if window is not None:
            raise InvalidParams("Invalid params: uri: a submodule has no lines or bytes", parameter="uri")
        return TextResourceContents(
            uri, f"Subproject commit {entry.id}\n", mime_type=SUBMODULE, meta={"carrel/commit": entry.id}
        )
    if window is not None:
        return read_part(opened, entry, window, uri)
    try:
        _, data = opened.store.read(entry.id, options.max_size)
    except BlobTooLarge as error:
        raise too_large_of(uri, error.size, options.max_size, error.head) from None
    if entry.is_link:
        return TextResourceContents(uri, data.decode("utf-8", "replace"), mime_type=LINK)
    text = detect(data)
    if text is None:
        return BlobResourceContents(uri, data, mime_type=type_of_bytes(data[:HEAD], display(entry.name)))
    pointer = lfs_pointer(data)
    if pointer is not None:
        # The contents are on an LFS server, which is not contacted.
        return TextResourceContents(uri, text.text, mime_type="text/plain", meta={"carrel/lfs": pointer})
    meta = describe_encoding(text.encoding) or None
    return TextResourceContents(uri, text.text, mime_type=type_of_text(display(entry.name)), meta=meta)


def read_part(opened: OpenRepository, entry: TreeObjectEntry, window: Window, uri: str) -> Contents:
    options = opened.options
    try:
        with opened.store.spool(entry.id, options.max_scan) as file:
            size = file.seek(0, 2)
            name = display(entry.name)
            return read_window(file.fileno(), uri, name, size, window, options)
    except BlobTooLarge as error:
        raise ResourceTooLarge(
            uri,
            f"The file has {error.size:,} bytes, and windows are read of files of up to {options.max_scan:,} bytes "
            "(the option max_scan)",
        ) from None


def lfs_pointer(data: bytes) -> dict[str, Any] | None:
    """Return the digest and the size in a Git LFS pointer, or None if the data is not an LFS pointer."""
    if len(data) > MAX_POINTER or not data.startswith(POINTER):
        return None
    fields = dict(line.split(" ", 1) for line in data.decode("utf-8", "replace").splitlines() if " " in line)
    size = fields.get("size", "")
    if "oid" not in fields or not (size.isascii() and size.isdigit()):
        return None
    return {"oid": fields["oid"], "size": int(size)}
