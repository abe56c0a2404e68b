"""Results of a search: hits with their snippets and lines, as Markdown for people and as JSON."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from carrel.printable import single_line
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.base import Wire
from carrel.wire.resources import Resource

__all__ = [
    "PassageResults",
    "SearchHit",
    "SearchPassage",
    "SearchResults",
    "as_json",
    "as_markdown",
    "nothing_found",
    "passages_as_markdown",
]


#: The end of a passage that is cut, and the lines of an entry at least: the link, an empty line and a line of text.
ELLIPSIS, LEAST = ("   > …", ""), 3
#: Characters of a line at least, for any budget; and the characters that a token may have on average.
SHORT, LONGEST_TOKEN = 80, 8


class SearchHit(Wire, kw_only=True):
    """Resource that matches a query.

    ``score`` is from 0 to 1, and compares hits of one query only. ``first_line`` and ``last_line`` are the lines of the
    passage, and ``line`` is the line of the snippet, from 1; they are absent if only the name matches. ``link`` is the
    URI to read the passage: the resource's URI, with a window of lines if the source supports windows. ``source`` is
    the name of the provider.
    """

    resource: Resource
    score: float
    source: str
    link: str
    line: int | None = None
    first_line: int | None = None
    last_line: int | None = None
    snippet: str | None = None


class SearchResults(Wire, kw_only=True):
    """Hits of a query, best first. ``complete``: all shared resources were indexed at the time of the query.

    If nothing is relevant, there are no hits, ``nearest`` are the nearest passages, and ``absent`` are the words of the
    query that no text has.
    """

    query: str
    hits: list[SearchHit]
    complete: bool
    nearest: Sequence[SearchHit] = ()
    absent: Sequence[str] = ()


class SearchPassage(Wire, kw_only=True):
    """Passage that matches a query, with its whole text.

    ``score`` is from 0 to 1, and compares passages of one query only. ``heading`` are the headings that the passage is
    under, "" if they are not known. ``link`` and ``source`` are as in ``SearchHit``. If only the name of the resource
    matches, there are no lines, and ``text`` is empty.
    """

    resource: Resource
    source: str
    link: str
    score: float
    first_line: int | None = None
    last_line: int | None = None
    heading: str = ""
    text: str = ""


class PassageResults(Wire, kw_only=True):
    """Passages of a query, best first; a resource may have several. The other fields are as in ``SearchResults``."""

    query: str
    passages: list[SearchPassage]
    complete: bool
    nearest: Sequence[SearchPassage] = ()
    absent: Sequence[str] = ()


def as_json(results: SearchResults) -> dict[str, Any]:
    """Return results as JSON values."""
    found: dict[str, Any] = msgspec.to_builtins(results)
    return found


def as_markdown(results: SearchResults) -> str:
    """Return results as a page in Markdown, with a link and a snippet for each hit."""
    lines = [f"# {_plain(results.query)}", ""]
    if not results.hits:
        lines += nothing_found(results)
    for number, hit in enumerate(results.hits, 1):
        resource = hit.resource
        line = f", line {hit.line}" if hit.line is not None else ""
        lines.append(f"{number}. [{_plain(resource.title or resource.name)}](<{hit.link}>){line}")
        if hit.snippet:
            lines += ["", *(f"   > {_line(each)}" for each in hit.snippet.splitlines()), ""]
    if not results.complete:
        lines += ["", "The index is not complete yet; there may be more."]
    return "\n".join(lines) + "\n"


def passages_as_markdown(results: PassageResults, budget: int) -> str:
    """Return passages as a page in Markdown with at most ``budget`` tokens, by estimate.

    A passage that does not fit ends with "…". For any budget, the page has at least the beginning of the first line.
    """
    lines = [f"# {_plain(results.query)}", ""]
    end = [] if results.complete else ["The index is not complete yet; there may be more."]
    if not results.passages:
        lines += nothing_found(results)
    # Entries begin with a number after a line feed, so the tokens of the page are the sum of the tokens of its entries.
    room = budget - estimate_tokens(_page(lines)) - 1 - (estimate_tokens(_page(end)) + 1 if end else 0)

    def tokens(part: Sequence[str]) -> int:
        return estimate_tokens(_page(part))

    for number, passage in enumerate(results.passages, 1):
        entry = _passage_lines(number, passage)
        used = tokens(entry)
        if used > room:
            cut = bisect(range(len(entry)), x=False, key=lambda kept: tokens([*entry[:kept], *ELLIPSIS]) > room) - 1
            if cut >= LEAST:
                lines += [*entry[:cut], *ELLIPSIS]
            elif number == 1:
                above, line = entry[:2], "".join(entry[2:LEAST])[: max(budget * LONGEST_TOKEN, SHORT)]
                size = bisect(
                    range(len(line)), x=False, key=lambda size: tokens([*above, line[:size], *ELLIPSIS]) > room
                )
                lines += [*above, line[: max(size - 1, SHORT)], *ELLIPSIS]
            break
        lines += entry
        room -= used + 1
    return _page([*lines, *end])


def nothing_found(results: SearchResults | PassageResults) -> list[str]:
    """Return lines in Markdown that say that nothing is found, or nothing relevant, and name the nearest."""
    if not results.nearest:
        return ["Nothing is found."]
    absent = f" No text has: {', '.join(map(_plain, results.absent))}." if results.absent else ""
    lines = [f"Nothing relevant is found.{absent} The nearest:", ""]
    for near in results.nearest:
        span = "" if near.first_line is None else f", lines {near.first_line}-{near.last_line}"
        lines.append(f"- [{_plain(near.resource.title or near.resource.name)}](<{near.link}>){span}")
    return lines


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _passage_lines(number: int, passage: SearchPassage) -> list[str]:
    resource = passage.resource
    span = "" if passage.first_line is None else f", lines {passage.first_line}-{passage.last_line}"
    first = f"{number}. [{_plain(resource.title or resource.name)}](<{passage.link}>){span}"
    text = passage.text.strip("\n")
    return [first, "", *(f"   > {_line(each)}".rstrip() for each in text.split("\n")), ""] if text else [first, ""]


def _plain(text: str) -> str:
    """Return text on one line, with the marks of Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", single_line(text, 500))


def _line(text: str) -> str:
    return text.replace("<", "&lt;")
