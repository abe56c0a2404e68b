"""PDF, by PDFium."""

from __future__ import annotations

import re
from typing import Any

from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument

__all__ = ["open_document"]

#: Hyphen at the end of a line, as PDFium writes it.
_HYPHENS = re.compile("[\u0002\ufffe\u00ad]\n?")
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\ufffe\uffff]")


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a PDF.

    Raises:
        DocumentFailed: it is damaged, or needs a password.
    """
    import pypdfium2  # type: ignore[import-untyped]

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise DocumentFailed("encrypted" if "password" in str(error).lower() else "damaged") from None
    if not len(document):
        raise DocumentFailed("damaged")

    def page(number: int) -> str:
        try:
            return text_of(document, number - 1)
        except pypdfium2.PdfiumError:
            raise DocumentFailed("damaged") from None

    return OpenDocument(len(document), page)


def text_of(document: Any, index: int) -> str:
    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            text: str = text_page.get_text_bounded()
        finally:
            text_page.close()
    finally:
        page.close()
    text = _HYPHENS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _CONTROLS.sub("", text).strip() + "\n"
