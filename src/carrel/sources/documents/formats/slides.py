"""Presentations (PPTX), by python-pptx. A page is a slide, with its notes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from carrel.sources.documents.formats.archive import open_archive
from carrel.sources.documents.formats.document import OpenDocument, cell, table

__all__ = ["open_document"]

MAX_GROUPS = 20


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a presentation.

    Raises:
        DocumentFailed: it is damaged, needs a password, or expands too much.
    """
    from pptx import Presentation

    open_archive(data).close()
    slides = Presentation(io.BytesIO(data)).slides
    return OpenDocument(len(slides), lambda number: text_of(slides[number - 1], number))


def text_of(slide: Any, number: int) -> str:
    title = slide.shapes.title
    heading = cell(title.text_frame.text) if title is not None else ""
    parts = [f"## {heading or f'Slide {number}'}"]
    skip = None if title is None else title.shape_id
    parts += [text for shape in slide.shapes if shape.shape_id != skip for text in shown(shape)]
    if slide.has_notes_slide:
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            parts.append("Notes:\n\n" + notes.text.strip())
    return "\n\n".join(parts) + "\n"


def shown(shape: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts of a shape."""
    if hasattr(shape, "shapes"):  # a group
        for one in shape.shapes if depth < MAX_GROUPS else ():
            yield from shown(one, depth + 1)
    elif getattr(shape, "has_table", False):
        yield table([[cell(one.text) for one in row.cells] for row in shape.table.rows]).rstrip()
    elif getattr(shape, "has_chart", False):
        yield from chart(shape.chart)
    elif shape.has_text_frame and shape.text_frame.text.strip():
        yield "\n".join(paragraphs(shape.text_frame.paragraphs))
    elif description := shape._element._nvXxPr.cNvPr.get("descr"):
        yield f"[image: {cell(description)}]"


def paragraphs(some: Iterable[Any]) -> Iterator[str]:
    """Yield paragraphs as the points of a list."""
    for paragraph in some:
        text = " ".join(paragraph.text.split())
        if text:
            yield f"{'  ' * min(paragraph.level, 8)}- {text}"


def chart(found: Any) -> Iterator[str]:
    """Yield the data of a chart as a table."""
    if found.has_title and found.chart_title.has_text_frame:
        yield cell(found.chart_title.text_frame.text)
    for plot in found.plots:
        rows = [["", *(cell(str(one)) for one in plot.categories)]]
        rows += [[cell(one.name or ""), *map(str, one.values)] for one in plot.series]
        yield table(rows).rstrip()
