"""HTML, by html-to-markdown. Nothing that a page refers to is fetched."""

from __future__ import annotations

import codecs
import re

from carrel.sources.content.text import decode
from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, sectioned

__all__ = ["html_text", "markdown_of", "open_document"]

_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,2000})</title", re.IGNORECASE)
_HEADING = re.compile(r"^# ", re.MULTILINE)


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a page.

    Raises:
        DocumentFailed: it is not text.
    """
    html = html_text(data)
    text = markdown_of(html)
    title = _TITLE.search(html[:100_000])
    if title is not None and _HEADING.search(text) is None:
        text = f"# {markdown_of(title[1]).strip()}\n\n{text}"
    return sectioned(text)


def markdown_of(html: str) -> str:
    """Return HTML as Markdown, without navigation, forms, scripts and the data of pictures.

    Raises:
        DocumentFailed: the parser fails.
    """
    from html_to_markdown import ConversionError, ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False,
        bullets="-",
        skip_images=False,
        preprocessing=PreprocessingOptions(enabled=True, remove_navigation=True, remove_forms=True),
    )
    try:
        content: str = convert(html, options).content or ""
    except ConversionError:
        raise DocumentFailed("damaged") from None
    return re.sub(r"!\[([^\]]*)\]\(data:[^)]*\)", r"[image: \1]", content)


def html_text(data: bytes) -> str:
    """Decode a page by its byte order mark, its declaration, or as its bytes look.

    Raises:
        DocumentFailed: it is not text.
    """
    declared = _DECLARED.search(data[:2048])
    if declared is not None and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode(declared[1].decode())
        except (LookupError, UnicodeError, ValueError):
            pass
    found = decode(data)
    if found is None:
        raise DocumentFailed("damaged")
    return found.text
