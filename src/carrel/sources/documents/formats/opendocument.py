"""OpenDocument texts (ODT) and presentations (ODP). A page of the latter is a slide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from carrel.sources.documents.formats.archive import open_archive, parse_xml, read_member
from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, cell, sectioned, table

__all__ = ["open_document"]

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
OFFICE, TEXT, TABLE, DRAW, PRESENTATION = (
    f"{{{_NS}{name}:1.0}}" for name in ("office", "text", "table", "drawing", "presentation")
)
SVG = f"{{{_NS}svg-compatible:1.0}}"
XLINK = "{http://www.w3.org/1999/xlink}"
MANIFEST = "META-INF/manifest.xml"
#: Elements within elements, up to which a document is read; lists go no deeper than ten in office programs.
MAX_DEPTH = 100
#: Cells and rows that are the same may be written once, with a number; more than this many are not repeated.
MAX_REPEATED = 100
SKIPPED = (
    f"{TEXT}tracked-changes",
    f"{OFFICE}annotation",
    f"{OFFICE}forms",
    f"{TEXT}sequence-decls",
    f"{TEXT}table-of-content",
    f"{PRESENTATION}notes",
)


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a text or a presentation.

    Raises:
        DocumentFailed: it is damaged, needs a password, or expands too much.
    """
    with open_archive(data) as archive:
        if MANIFEST in archive.namelist() and b"encryption-data" in read_member(archive, MANIFEST):
            raise DocumentFailed("encrypted")
        root = parse_xml(read_member(archive, "content.xml"))
    body = root.find(f"{OFFICE}body")
    if body is None or not len(body):
        raise DocumentFailed("damaged")
    if format == "odt":
        return sectioned("\n\n".join(blocks(body[0])))
    slides = body[0].findall(f"{DRAW}page")
    if not slides:
        raise DocumentFailed("damaged")
    return OpenDocument(len(slides), lambda number: slide(slides[number - 1], number))


def slide(page: Any, number: int) -> str:
    title, parts = "", list[str]()
    for frame in page:
        found = list(blocks(frame))
        if not title and frame.get(f"{PRESENTATION}class") == "title":
            title = cell(" ".join(found))
        else:
            parts += found
    notes = [text for one in page.findall(f"{PRESENTATION}notes") for text in blocks(one)]
    parts += ["Notes:", *notes] if notes else []
    return "\n\n".join([f"## {title or f'Slide {number}'}", *parts]) + "\n"


def blocks(element: Any, depth: int = 0) -> Iterator[str]:
    """Yield the blocks in an element: headings, paragraphs, lists, tables."""
    for child in element if depth < MAX_DEPTH else ():
        tag = child.tag
        if tag == f"{TEXT}h":
            level = child.get(f"{TEXT}outline-level", "1")
            text = inline(child)
            if text:
                yield "#" * (min(int(level), 6) if level.isdecimal() and len(level) < 3 else 1) + f" {text}"
        elif tag == f"{TEXT}p":
            text = inline(child)
            if text:
                yield text
            # Text boxes and pictures are anchored in paragraphs.
            for frame in child.iter(f"{DRAW}frame"):
                yield from blocks(frame, depth + 1)
        elif tag == f"{TEXT}list":
            points = list(list_points(child, depth + 1, 0))
            if points:
                yield "\n".join(points)
        elif tag == f"{TABLE}table":
            found = table(list(rows(child)))
            if found:
                yield found.rstrip()
        elif tag == f"{SVG}desc":
            yield f"[image: {cell(child.text or '')}]"
        elif isinstance(tag, str) and tag not in SKIPPED:
            yield from blocks(child, depth + 1)


def list_points(element: Any, depth: int, level: int) -> Iterator[str]:
    """Yield the lines of a list."""
    for item in element if depth < MAX_DEPTH else ():
        is_first = True
        for child in item:
            if child.tag == f"{TEXT}list":
                yield from list_points(child, depth + 1, level + 1)
            elif child.tag in (f"{TEXT}p", f"{TEXT}h") and (text := inline(child)):
                yield "  " * level + ("- " if is_first else "  ") + text
                is_first = False


def rows(element: Any) -> Iterator[list[str]]:
    """Yield the rows of a table."""
    for row in element.iter(f"{TABLE}table-row"):
        cells = list[str]()
        for one in row:
            if one.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                continue
            text = cell(" ".join(inline(part) for part in one.iter(f"{TEXT}p", f"{TEXT}h")))
            repeated = one.get(f"{TABLE}number-columns-repeated", "1")
            cells += [text] * min(int(repeated) if repeated.isdecimal() and len(repeated) < 9 else 1, MAX_REPEATED)
        yield cells


def inline(element: Any) -> str:
    """Return the text in a paragraph, with its links."""
    return " ".join("".join(pieces(element)).split())


def pieces(element: Any, depth: int = 0) -> Iterator[str]:
    yield element.text or ""
    for child in element if depth < MAX_DEPTH else ():
        tag = child.tag
        if tag in (f"{TEXT}s", f"{TEXT}tab", f"{TEXT}line-break"):
            yield " "
        elif tag == f"{TEXT}a" and (link := child.get(f"{XLINK}href", "")).startswith(("https:", "http:", "mailto:")):
            yield f"[{''.join(pieces(child, depth + 1))}](<{link}>)"
        elif tag == f"{TEXT}note":
            yield f" ({inline(child.find(f'{TEXT}note-body'))})" if child.find(f"{TEXT}note-body") is not None else ""
        elif isinstance(tag, str) and tag not in SKIPPED and tag != f"{DRAW}frame":
            yield from pieces(child, depth + 1)
        yield child.tail or ""
