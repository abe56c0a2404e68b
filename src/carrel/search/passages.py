"""Passages of a text: whole sections of about 300 tokens, small ones merged, large ones split at paragraphs.

A section begins at a heading, or in code at a definition. A passage knows its lines and the headings that it is under:
of a page with the headings ``# Tea``, ``## Green`` and ``## Black``, the last section has ``Tea > Black``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Passage", "passages_of"]

#: Characters of about 300 tokens of Latin text; of others fewer, as their characters have more bytes.
TARGET = 1200
#: Characters of a line, or of a heading, that are kept together.
MAX_HEADING = 200

# Both begin with a line feed, by which the places to look at are found quickly, and are searched in a text with one
# before it: so a match begins where the line does in the text itself.
_HEADING = re.compile(r"\n(?:(#{1,6})[ \t]+(\S.*)|(`{3}|~{3}).*)")
_MODIFIERS = (
    "async|export|default|public|private|protected|internal|static|final|abstract|override|virtual|sealed|inline|open"
    r"|suspend|unsafe|extern|const|pub(?:\([\w ]*\))?"
)
_KEYWORDS = (
    r"def|class|func|fn|function\*?|fun|impl|struct|enum|trait|interface|type|module|namespace|object|record|sub|proc"
)
# The letters are the first letters of modifiers and keywords. With them, and without backtracking, matching takes an
# eighth of the time.
_DEFINITION = re.compile(
    rf"\n([ \t]*+)(?=[acdefimnoprstuv])(?:(?:{_MODIFIERS})[ \t]++)*+(?:{_KEYWORDS})[ \t]++([A-Za-z_$][\w$]*+)"
)
#: Number of characters that a regular expression searches before it releases the interpreter: about a millisecond.
STEP = 64 * 1024
_PARAGRAPH = re.compile(r"\n[ \t]*\n")

#: MIME types of text with headings, and suffixes of MIME types of code.
MARKUP = ("text/markdown", "text/x-markdown", "text/mdx")
PROSE = ("text/plain", "text/html", "text/csv", "text/x-rst", "application/json", "application/xml", "text/xml")


class Passage(NamedTuple):
    """Passage of a text: from one offset to another, its first and last line from 1, and the headings it is under."""

    start: int
    end: int
    first: int
    last: int
    heading: str


class Section(NamedTuple):
    """Section: where it begins, and its heading with those above it."""

    start: int
    heading: str


def passages_of(text: str, mime_type: str | None = None) -> Iterator[Passage]:
    """Yield the passages of a text, in order. Together they are the whole text."""
    if not text.strip():
        return
    target = _target(text)
    sections = list(_sections(text, mime_type))
    starts = [section.start for section in sections[1:]] + [len(text)]
    line = 1
    begin, headings = 0, list[str]()
    for section, end in zip(sections, starts, strict=True):
        if section.start > begin and end - begin > target and section.start - begin > target // 4:
            passage = _passage(text, begin, section.start, line, headings)
            yield passage
            line, begin, headings = passage.last + 1, section.start, []
        if section.heading and section.heading not in headings:
            headings.append(section.heading)
        if end - begin > target * 3 // 2:
            for point in _split_points(text, begin, end, target):
                passage = _passage(text, begin, point, line, headings)
                yield passage
                line, begin = passage.last + (text[point - 1] == "\n"), point
    if begin < len(text):
        yield _passage(text, begin, len(text), line, headings)


def _target(text: str) -> int:
    """Return the characters of about 300 tokens."""
    if text.isascii():
        return TARGET
    sample = text[:20_000]
    width = len(sample.encode("utf-8", "surrogatepass")) / len(sample)
    return int(TARGET / (1 + (min(width, 3.0) - 1) * 0.8))


def _sections(text: str, mime_type: str | None) -> Iterator[Section]:
    """Yield the sections of a text; the first one begins at its start."""
    kind = mime_type or ""
    if kind in MARKUP:
        return _headed(text)
    if kind in PROSE or not kind:
        return iter([Section(0, "")])
    return _defined(text)


def _at_lines(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with a line feed and stays on its line; they begin where lines do.

    Nothing else runs in Python while a regular expression is searched for, so it is done in steps.
    """
    text = "\n" + text
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + STEP)
        end = len(text) if end < 0 else end
        yield from pattern.finditer(text, begin, end)
        begin = end


def _headed(text: str) -> Iterator[Section]:
    above: list[tuple[int, str]] = []
    fence = ""
    start = 0
    for found in _at_lines(_HEADING, text):
        marks, title, fenced = found.groups()
        if fenced:
            fence = "" if fence == fenced else fence or fenced
        if fenced or fence:
            continue
        if start == 0 and found.start() > 0 and not above:
            yield Section(0, "")
        above = [each for each in above if each[0] < len(marks)]
        above.append((len(marks), title.strip("# \t\r")[:MAX_HEADING]))
        start = found.start()
        yield Section(start, " > ".join(each for _, each in above))
    if not above:
        yield Section(0, "")


def _defined(text: str) -> Iterator[Section]:
    """Yield the definitions of code, with the decorators and comments that are right above."""
    yield Section(0, "")
    outer = ""
    last = 0
    for found in _at_lines(_DEFINITION, text):
        indent, name = found.groups()
        start = _with_lines_above(text, found.start(), last)
        outer = outer if indent else name
        if start > last:
            last = start
            yield Section(start, name if outer in ("", name) else f"{outer}.{name}")


def _with_lines_above(text: str, start: int, last: int) -> int:
    """Return where the comments and decorators above a definition begin."""
    while start > last:
        above = text.rfind("\n", last, start - 1) + 1
        line = text[max(above, last) : start].lstrip()
        if not line.startswith(("@", "#", "//", "///", "/*", "*", "--")) or above <= last:
            return start
        start = above
    return start


def _split_points(text: str, begin: int, end: int, target: int) -> Iterator[int]:
    """Yield the positions at which to split a large section: after paragraphs, else after lines, else anywhere."""
    while end - begin > target * 3 // 2:
        most = begin + target
        point = 0
        for found in _PARAGRAPH.finditer(text, begin + target // 2, most):
            point = found.end()
        if not point or point <= begin:
            point = text.rfind("\n", begin + target // 2, most) + 1
        if point <= begin:
            point = text.find("\n", most, most + target) + 1 or most
        begin = min(point, end)
        yield begin


def _passage(text: str, start: int, end: int, line: int, headings: list[str]) -> Passage:
    ends = text.endswith("\n", start, end)
    last = line + text.count("\n", start, end) - ends
    return Passage(start, end, line, max(line, last), " | ".join(headings))
