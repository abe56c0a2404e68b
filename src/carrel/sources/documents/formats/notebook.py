"""Jupyter notebooks (format 3 and 4): text, code, and output that is text; pictures are left out. Nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, sectioned

__all__ = ["open_document"]

#: Characters of the output of a cell.
MAX_OUTPUT = 10_000
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TICKS = re.compile("`{3,}")


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a notebook.

    Raises:
        DocumentFailed: the data is not a notebook.
    """
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        raise DocumentFailed("damaged") from None
    if not isinstance(notebook, dict):
        raise DocumentFailed("damaged")
    sheets = notebook.get("worksheets")
    cells = notebook.get("cells")
    if cells is None and isinstance(sheets, list):  # format 3
        cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in listed(sheet.get("cells"))]
    if not isinstance(cells, list):
        raise DocumentFailed("damaged")
    language = language_of(notebook.get("metadata"))
    return sectioned("\n\n".join(block for cell in cells if isinstance(cell, dict) for block in shown(cell, language)))


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def language_of(metadata: Any) -> str:
    for section, name in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(section) if isinstance(metadata, dict) else None
        value = found.get(name) if isinstance(found, dict) else None
        if isinstance(value, str) and re.fullmatch(r"[\w+#-]{1,30}", value):
            return value
    return ""


def joined(value: Any) -> str:
    """Return text that may be a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def shown(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = joined(cell.get("source", cell.get("input"))).strip("\n")
    kind = cell.get("cell_type")
    if kind == "heading":  # of format 3
        level = cell.get("level", 1)
        yield "#" * (level if isinstance(level, int) and 0 < level < 7 else 1) + " " + source
    elif kind != "code":
        yield source
    else:
        if source.strip():
            yield fenced(source, language)
        for output in listed(cell.get("outputs")):
            text = output_of(output) if isinstance(output, dict) else ""
            if text.strip():
                yield fenced(text[:MAX_OUTPUT] + ("\n…" if len(text) > MAX_OUTPUT else ""), "")


def output_of(output: dict[str, Any]) -> str:
    data = output.get("data", output)
    if output.get("output_type") in ("error", "pyerr"):
        return f"{output.get('ename', '')}: {output.get('evalue', '')}"[:MAX_OUTPUT]
    text = joined(output.get("text")) or (joined(data.get("text/plain")) if isinstance(data, dict) else "")
    return _COLORS.sub("", text).strip("\n")


def fenced(text: str, language: str) -> str:
    """Return text as a code block. Its fence is longer than the fences in the text."""
    fence = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(text))])
    return f"{fence}{language}\n{text}\n{fence}"
