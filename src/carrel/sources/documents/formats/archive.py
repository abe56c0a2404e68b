"""ZIP archives of documents (Word, EPUB, OpenDocument), which are opened only if they do not expand too much."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from carrel.sources.documents.formats.document import DocumentFailed

__all__ = ["check_xml", "open_archive", "parse_xml", "read_member"]

MAX_MEMBERS = 20_000
#: Bytes of all members, and of members with a compression ratio over ``MAX_RATIO`` (text has up to about 20).
MAX_TOTAL = 512 * 1024 * 1024
MAX_RATIO, MAX_DENSE = 100, 16 * 1024 * 1024
MAX_MEMBER = 128 * 1024 * 1024


def open_archive(data: bytes) -> zipfile.ZipFile:
    """Open an archive whose members may be unpacked.

    Raises:
        DocumentFailed: the data is not an archive, is encrypted, or expands too much.
    """
    if data.startswith(b"\xd0\xcf\x11\xe0"):  # documents of Microsoft with a password are in this container
        raise DocumentFailed("encrypted")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError):
        raise DocumentFailed("damaged") from None
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    dense = sum(member.file_size for member in members if member.file_size > MAX_RATIO * max(member.compress_size, 1))
    if len(members) > MAX_MEMBERS:
        raise DocumentFailed("expands", f"it has {len(members):,} parts, and {MAX_MEMBERS:,} is the limit")
    if total > MAX_TOTAL or dense > MAX_DENSE:
        raise DocumentFailed("expands", f"its parts have {total:,} bytes after decompression")
    if any(member.flag_bits & 1 for member in members):
        raise DocumentFailed("encrypted")
    return archive


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member.

    Raises:
        DocumentFailed: the member does not exist, is damaged, or is too large.
    """
    try:
        info = archive.getinfo(name)
        if info.file_size > MAX_MEMBER:
            raise DocumentFailed("expands", f"a part has {info.file_size:,} bytes")
        return archive.read(info)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError):
        raise DocumentFailed("damaged") from None


def check_xml(data: bytes) -> None:
    """Check that XML is well-formed, without making a tree of it.

    Raises:
        DocumentFailed: it is not.
    """
    from xml.parsers import expat

    parser = expat.ParserCreate(namespace_separator=" ")
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        raise DocumentFailed("damaged") from None


def parse_xml(data: bytes) -> Any:
    """Parse XML. Entities are not expanded, DTDs not loaded, and nothing is fetched.

    Raises:
        DocumentFailed: it is not well-formed.
    """
    from lxml import etree  # type: ignore[import-untyped]

    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        raise DocumentFailed("damaged") from None
