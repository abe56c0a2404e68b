"""Kinds of documents by media type: the name, the unit of a page, and the module that reads it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["IMAGE", "KINDS", "PACKAGES", "UNREAD", "Kind", "kind_of"]


class Kind(NamedTuple):
    """Kind of documents. ``unit`` is the unit of a page: a page, slide, sheet, chapter, message, or a section of text.

    ``module`` is the module in ``formats`` that reads it; ``format`` is its argument.
    """

    title: str
    unit: str
    module: str
    format: str


_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"

IMAGE = Kind("image", "page", "image", "image")

KINDS: dict[str, Kind] = {
    "application/pdf": Kind("PDF", "page", "pdf", "pdf"),
    f"{_OOXML}.wordprocessingml.document": Kind("Word document", "section", "word", "docx"),
    "application/vnd.ms-word.document.macroenabled.12": Kind("Word document", "section", "word", "docx"),
    f"{_OOXML}.spreadsheetml.sheet": Kind("Excel workbook", "sheet", "sheets", "xlsx"),
    "application/vnd.ms-excel.sheet.macroenabled.12": Kind("Excel workbook", "sheet", "sheets", "xlsx"),
    "application/vnd.ms-excel": Kind("Excel workbook", "sheet", "sheets", "xls"),
    f"{_ODF}.spreadsheet": Kind("OpenDocument spreadsheet", "sheet", "sheets", "ods"),
    f"{_OOXML}.presentationml.presentation": Kind("PowerPoint presentation", "slide", "slides", "pptx"),
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": Kind(
        "PowerPoint presentation", "slide", "slides", "pptx"
    ),
    f"{_ODF}.text": Kind("OpenDocument text", "section", "opendocument", "odt"),
    f"{_ODF}.presentation": Kind("OpenDocument presentation", "slide", "opendocument", "odp"),
    "application/epub+zip": Kind("EPUB book", "chapter", "epub", "epub"),
    "text/html": Kind("HTML page", "section", "html", "html"),
    "application/xhtml+xml": Kind("HTML page", "section", "html", "html"),
    "application/x-ipynb+json": Kind("Jupyter notebook", "section", "notebook", "ipynb"),
    "message/rfc822": Kind("e-mail", "section", "mail", "eml"),
    "application/mbox": Kind("mailbox", "message", "mail", "mbox"),
    "application/rtf": Kind("RTF document", "section", "rtf", "rtf"),
    "text/rtf": Kind("RTF document", "section", "rtf", "rtf"),
    **dict.fromkeys(
        ("image/avif", "image/bmp", "image/gif", "image/jpeg", "image/png", "image/tiff", "image/webp"), IMAGE
    ),
}
"""Kinds of documents by media type."""

UNREAD = {
    "application/msword": "the text of old Word files (.doc) is not read, save it as .docx",
    "application/vnd.ms-powerpoint": "the text of old PowerPoint files (.ppt) is not read, save it as .pptx",
}
"""Documents whose text is not read, by media type, and what to do about it."""

PACKAGES = ("html_to_markdown", "lxml", "mammoth", "PIL", "pptx", "pypdfium2", "python_calamine", "striprtf")
"""Packages that the formats need, from the extra ``documents``."""


def kind_of(mime_type: str | None) -> Kind | None:
    """Return the kind of documents of a media type; None if it is no document."""
    return KINDS.get((mime_type or "").partition(";")[0].strip().lower())
