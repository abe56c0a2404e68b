"""Books (EPUB 2 and 3). A page is a chapter: a document of the book, in the order of reading."""

from __future__ import annotations

import posixpath
import zipfile
from urllib.parse import unquote

from carrel.sources.documents.formats.archive import open_archive, parse_xml, read_member
from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument
from carrel.sources.documents.formats.html import html_text, markdown_of

__all__ = ["open_document"]

CONTAINER = "META-INF/container.xml"
_OPF = "{http://www.idpf.org/2007/opf}"
_OCF = "{urn:oasis:names:tc:opendocument:xmlns:container}"
PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a book.

    Raises:
        DocumentFailed: it is damaged, protected, or expands too much.
    """
    archive = open_archive(data)
    chapters = chapters_of(archive)
    if not chapters:
        raise DocumentFailed("damaged")
    if any(is_protected(archive, name) for name in chapters[:1]):
        raise DocumentFailed("encrypted")

    def page(number: int) -> str:
        return markdown_of(html_text(read_member(archive, chapters[number - 1]))).strip() + "\n"

    return OpenDocument(len(chapters), page)


def chapters_of(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the chapters, in the order of reading."""
    rootfile = parse_xml(read_member(archive, CONTAINER)).find(f".//{_OCF}rootfile")
    package = "" if rootfile is None else rootfile.get("full-path", "")
    root = parse_xml(read_member(archive, package))
    there = set(archive.namelist())
    items = {
        item.get("id"): posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        for item in root.iter(f"{_OPF}item")
        if item.get("media-type") in PAGES
    }
    names = [items.get(one.get("idref")) for one in root.iter(f"{_OPF}itemref")]
    return [name for name in names if name is not None and name in there]


def is_protected(archive: zipfile.ZipFile, name: str) -> bool:
    """Return whether a chapter is encrypted; fonts may be, and do not matter."""
    if "META-INF/encryption.xml" not in archive.namelist():
        return False
    return name.encode() in read_member(archive, "META-INF/encryption.xml")
