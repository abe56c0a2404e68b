"""Results of packing: items with their lines, tokens and reasons, and the resources that are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "NEAREST",
    "UNMATCHED",
    "UNREADABLE",
    "ContextChanges",
    "ContextItem",
    "Format",
    "LeftOut",
    "PackedContext",
    "Reason",
    "as_json",
    "describe_unused",
    "unused",
]

Format: TypeAlias = Literal["markdown", "xml", "json"]
"""Format of a packed context. JSON is for programs: its items are counted as they are in Markdown."""


#: Reason to leave out the nearest resources if nothing is relevant.
NEAREST = "the nearest, but not relevant"
#: Reasons for values of ``without`` and ``pin`` that have no effect. A hint may follow.
UNMATCHED, UNREADABLE = "excluded, but no resource matches it", "pinned, but cannot be read"


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why an item is in a packed context; ``str`` says it in English.

    ``words`` are words of the question that it has, in its name, in the headings above it, and in so many of its
    lines; there may be ``more`` words. ``beside``: a passage of it is next to one that matches. ``small``: it is
    whole because it is small.
    """

    pinned: bool = False
    open: bool = False
    matched: bool = True
    words: tuple[str, ...] = ()
    more: bool = False
    in_name: bool = False
    in_heading: bool = False
    lines: int = 0
    beside: bool = False
    whole: bool = False
    small: bool = False

    def __str__(self) -> str:
        parts = ["pinned"] * self.pinned + ["open"] * self.open
        if self.matched:
            parts.append(self._match())
        if self.beside:
            parts.append("with the passage next to it")
        if self.whole:
            parts.append("whole, as it is small" if self.small else "whole")
        return ", ".join(parts)

    def _match(self) -> str:
        if not self.words:
            return "found by the search"
        words = ", ".join(f"'{word}'" for word in self.words) + " and more" * self.more
        places = ["the name"] * self.in_name + ["the heading"] * self.in_heading
        if self.lines:
            places.append(f"{self.lines} line{'s' * (self.lines > 1)}")
        return f"matches {words} in {' and '.join(filter(None, (', '.join(places[:-1]), places[-1])))}"


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a resource, or of some of its lines, in a packed context.

    ``server`` is the server or source of the resource. ``lines`` are the first and the last line, from 1; None if
    ``text`` is the whole resource. They count in the text of ``link``: of ``uri``, or of the text view of a document
    such as PDF or HTML. ``text`` may begin with the headings, the signature or the table header above these lines,
    followed by a line with ``…``. ``tokens`` counts the text with its citation. ``score`` is from 0 to 1, and
    compares items of one context only. ``reason`` is ``why`` in English.
    """

    server: str
    uri: str
    link: str
    title: str
    lines: tuple[int, int] | None
    tokens: int
    score: float
    reason: str
    text: str
    why: Reason = Reason()


class LeftOut(msgspec.Struct, frozen=True):
    """Resource that is not in a packed context, with the reason."""

    uri: str
    reason: str


def unused(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """Return the pins that are not packed, and the exclusions that no resource matches."""
    return [each for each in left_out if each.reason.startswith(("pinned, ", UNMATCHED))]


def describe_unused(left_out: Iterable[LeftOut]) -> list[str]:
    """Return sentences about pins that are not packed, and exclusions that no resource matches."""
    return [f"{each.uri} is {each.reason}" for each in unused(left_out)]


class PackedContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Resources for a question, packed into a budget of tokens.

    ``tokens`` counts the whole rendered text, and is never more than ``budget``. ``tokenizer`` is the name of the
    tokenizer that has counted. ``complete``: all resources were searched. ``unread`` are the names of servers and
    sources that have not answered yet, or whose resources were not all searched.
    """

    question: str
    budget: int
    tokens: int
    items: tuple[ContextItem, ...]
    left_out: tuple[LeftOut, ...]
    tokenizer: str
    format: Format
    complete: bool
    unread: tuple[str, ...] = ()


class ContextChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Difference between two packs of one question. ``changed`` are items with another text or other lines."""

    added: tuple[ContextItem, ...]
    removed: tuple[ContextItem, ...]
    changed: tuple[ContextItem, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def as_json(packed: PackedContext) -> dict[str, Any]:
    """Return a packed context as JSON values. The ``uri`` of an item is its ``link``, in whose text its lines count."""
    values: dict[str, Any] = msgspec.to_builtins(packed)
    for item in values["items"]:
        item["uri"] = item.pop("link")
        del item["why"]
    return {name: values[name] for name in ("question", "budget", "tokens", "items", "leftOut")}
