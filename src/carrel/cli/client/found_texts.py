"""Hits of a search tool, as ``carrel find`` shows them: each text once, with all places that have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.client.connection import shown
from carrel.cli.terminal.output import bold

if TYPE_CHECKING:
    from carrel.search.results import SearchHit, SearchResults
    from carrel.wire.tools import CallToolResult

__all__ = ["hits_of", "lines_of", "nearest_lines", "nothing_relevant"]


def hits_of(result: CallToolResult) -> list[SearchHit] | None:
    """Return the hits of a search tool of a Carrel server; None for the result of any other tool."""
    from carrel.search.results import SearchHit

    structured: Any = result.structured_content
    if not isinstance(structured, dict) or not isinstance(structured.get("hits"), list):
        return None
    try:
        return msgspec.convert(structured["hits"], list[SearchHit])
    except msgspec.ValidationError:
        return None


def nothing_relevant(result: CallToolResult | None) -> SearchResults | None:
    """Return the results of a Carrel search tool if nothing relevant is found, or None."""
    from carrel.search.results import SearchResults

    try:
        found = msgspec.convert(None if result is None else result.structured_content, SearchResults)
    except msgspec.ValidationError:
        return None
    return found if found.nearest and not found.hits else None


def nearest_lines(found: SearchResults) -> list[str]:
    """Return lines that say that nothing relevant is found, and the nearest places."""
    absent = f" No text has: {shown(', '.join(found.absent))}." if found.absent else ""
    return [f"Nothing relevant found.{absent} The nearest:", *(f"  {place(hit)}" for hit in found.nearest)]


def lines_of(hits: Sequence[SearchHit], words: str) -> list[str]:
    """Return hits as lines for a terminal: the title, the place, and the text with the words in bold."""
    lines: list[str] = []
    for copies in grouped(hits):
        first = copies[0]
        title = bold(shown(first.resource.title or first.resource.name, 200))
        lines.append(f"  {title}  {place(first)}")
        lines += [f"    {marked(line, words)}".rstrip() for line in (first.snippet or "").split("\n") if line.strip()]
        lines += [f"    also {place(copy)}" for copy in copies[1:]]
    return lines


def grouped(hits: Sequence[SearchHit]) -> list[list[SearchHit]]:
    """Return hits in groups with equal text, such as a file and its copy in git, in the order of their best hits."""
    groups: dict[object, list[SearchHit]] = {}
    for hit in hits:
        name = (hit.resource.title or hit.resource.name).rpartition("/")[2]
        groups.setdefault((name, hit.snippet) if hit.snippet else hit.resource.uri, []).append(hit)
    return list(groups.values())


def place(hit: SearchHit) -> str:
    """Return where the text of a hit is: the URI of its resource, or of the text of a document, and the line."""
    if hit.line is None:
        return shown(hit.resource.uri)
    from carrel.sources.documents.query import text_uri

    return f"{shown(text_uri(hit.resource))}, line {hit.line}"


def marked(line: str, words: str) -> str:
    """Return a line of text for a terminal, with the words in bold."""
    from carrel.search.marks import marks_of

    parts: list[str] = []
    at = 0
    for begin, end in marks_of(line, words):
        parts += [shown(line[at:begin]), bold(shown(line[begin:end]))]
        at = end
    return "".join([*parts, shown(line[at:])])
