"""Rich Text Format, by striprtf: paragraphs, tables and links. Pictures and embedded objects are left out."""

from __future__ import annotations

from itertools import groupby

from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, cell, sectioned, table

__all__ = ["open_document"]


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a document.

    Raises:
        DocumentFailed: it is not RTF.
    """
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentFailed("damaged")
    try:
        # Non-ASCII characters are escaped with the code page of the document.
        text: str = rtf_to_text(  # type: ignore[no-untyped-call]
            data.decode("cp1252", "replace"), encoding="cp1252", errors="replace"
        )
    except (ValueError, LookupError, IndexError, OverflowError):
        raise DocumentFailed("damaged") from None
    parts: list[str] = []
    for is_row, lines in groupby(filter(str.strip, text.splitlines()), lambda line: line.endswith("|")):
        if is_row:
            parts.append(table([[cell(one) for one in line.removesuffix("|").split("|")] for line in lines]).strip())
        else:
            parts += [line.strip() for line in lines]
    return sectioned("\n\n".join(parts))
