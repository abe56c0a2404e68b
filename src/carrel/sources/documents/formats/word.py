"""Word documents (DOCX), by mammoth: its HTML becomes Markdown. Macros are not looked at, and nothing is fetched."""

from __future__ import annotations

import io
from typing import Any

from carrel.sources.documents.formats.archive import open_archive
from carrel.sources.documents.formats.document import OpenDocument, sectioned
from carrel.sources.documents.formats.html import markdown_of

__all__ = ["open_document"]


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a Word document.

    Raises:
        DocumentFailed: it is damaged, needs a password, or expands too much.
    """
    import mammoth  # type: ignore[import-untyped]

    open_archive(data).close()
    result = mammoth.convert_to_html(io.BytesIO(data), convert_image=describe_image)
    return sectioned(markdown_of(result.value))


def describe_image(image: Any) -> list[Any]:
    """Return a picture as its description; its bytes are not read."""
    from mammoth import html

    return [html.text(f"[image: {image.alt_text}]")] if image.alt_text else []
