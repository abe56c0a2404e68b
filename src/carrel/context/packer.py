"""Packer: chooses lines of documents within a budget of tokens. Equal documents give equal results.

Pinned documents come first. Then the passage with the best value is added, again and again: its score, reduced by each
passage of its document that was chosen before. A small document is added as a whole. The rest of the budget takes the
passages next to the best ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from carrel.context.chosen_lines import ChosenLines, merged
from carrel.context.documents import Document, Span
from carrel.context.duplicates import Seen
from carrel.context.formats import END, START, render, rendered_item
from carrel.context.reasons import Reasons
from carrel.context.results import ContextItem, Format, LeftOut, PackedContext
from carrel.context.tokenizer import Tokenizer

__all__ = ["Packer"]

#: How much less each further passage of a document counts.
FADING = 0.75
#: A document is added as a whole if it takes at most so many times the tokens of its passages, and so many more.
WHOLE, WHOLE_MORE = 1.5, 50
#: Smallest part of a passage that is added if the passage does not fit, in tokens and in lines.
SMALLEST, SMALLEST_LINES = 60, 3
#: Documents whose passages get the passages next to them.
EXTENDED = 5
#: Number of an item that takes as many tokens as any other.
ANY_NUMBER = 999


class Packer:
    """Packer for a question, used once."""

    def __init__(self, question: str, budget: int, tokenizer: Tokenizer, format: Format) -> None:
        self._question = question
        self._budget = budget
        self._format: Format = format
        self._tokenizer = tokenizer
        self._left = budget - tokenizer.count(START[format] + END[format])
        self._seen = Seen()
        self._chosen: dict[tuple[str, str], ChosenLines] = {}
        self._drafts: dict[tuple[str, str], ChosenLines] = {}
        self._reasons: dict[tuple[str, str], str] = {}

    def pack(self, documents: Sequence[Document], left_out: Iterable[LeftOut], *, complete: bool) -> PackedContext:
        """Pack documents, of which each has another key."""
        pinned = sorted((each for each in documents if each.pinned is not None), key=lambda each: each.pinned or 0)
        for document in pinned:
            self._pin(document)
        self._choose(documents)
        chosen = sorted(self._chosen.values(), key=lambda each: _place(each.document))  # else in order of choice
        for lines in chosen[:EXTENDED]:
            self._extend(lines)
        reasons = Reasons(self._question)
        items, tokens = self._fitting([item for each in chosen for item in each.explained(reasons)])
        packed = {(item.server, item.uri) for item in items}
        absent = [each for each in documents if each.key not in packed]
        absent.sort(key=lambda each: (_place(each), -each.score, each.key))
        over = [LeftOut(each.resource.uri, self._reasons.get(each.key, "over the budget")) for each in absent]
        return PackedContext(
            question=self._question,
            budget=self._budget,
            tokens=tokens,
            items=tuple(items),
            left_out=(*left_out, *over),
            tokenizer=self._tokenizer.name,
            format=self._format,
            complete=complete,
        )

    def _fitting(self, items: list[ContextItem]) -> tuple[list[ContextItem], int]:
        """Return the items that fit, and their tokens: a text may have more tokens than its parts."""
        while items and (tokens := self._tokenizer.count(render(items, self._format))) > self._budget:
            items = items[:-1]
        return items, tokens if items else 0

    # Choosing

    def _pin(self, document: Document) -> None:
        """Add a pinned document, or, if it does not fit, as many of its first lines as do; its passages come later."""
        if document.is_whole and self._take(document, [], whole=True):
            return
        if not document.spans:
            self._take_part(document, Span(next(iter(document.lines)), document.last, 0.0), self._left // 2)

    def _choose(self, documents: Sequence[Document]) -> None:
        waiting = [(document, span) for document in documents for span in document.spans]
        while waiting and self._left >= SMALLEST:

            def value(each: tuple[Document, Span]) -> tuple[bool, float, tuple[str, str], int]:
                document, span = each
                lines = self._chosen.get(document.key)
                faded = span.score * FADING ** (lines.matched if lines else 0)
                return document.pinned is None, -faded, document.key, span.first

            best = min(waiting, key=value)
            waiting.remove(best)
            self._choose_one(*best)

    def _choose_one(self, document: Document, span: Span) -> None:
        lines = self._chosen.get(document.key)
        if lines is not None and lines.is_whole:
            lines.matched += 1
            return
        owner = self._seen.owner_of(document.text(span.first, span.last))
        if owner is not None:
            if owner != document.key:
                self._reasons.setdefault(document.key, f"near-duplicate of {owner[1]}")
            return
        spans = [] if lines is None else lines.spans
        added = self._take_whole(document, [*spans, span]) or self._take(document, [*spans, span])
        if not added:
            added = self._take_part(document, span, self._left)
        if added:
            self._chosen[document.key].matched += 1
        else:
            self._reasons.setdefault(document.key, "over the budget")

    def _take_whole(self, document: Document, spans: list[Span]) -> bool:
        """Add a whole document if it is little larger than its passages."""
        if not document.is_whole:
            return False
        parts = merged(spans, document)
        chars = sum(len(document.text(part.first, part.last)) for part in parts)
        if sum(map(len, document.lines.values())) > 2 * WHOLE * (chars + 4 * WHOLE_MORE):
            return False  # without counting tokens, which takes long
        lines = self._lines_of(document)
        tokens = self._tokens(lines, parts, whole=False)
        (item,) = lines.items((), whole=True)
        if item.tokens > WHOLE * tokens + WHOLE_MORE:
            return False
        if document.key not in self._chosen and self._seen.owner_of(item.text) is not None:
            return False
        return self._take(document, [], whole=True)

    def _take(self, document: Document, spans: list[Span], *, whole: bool = False) -> bool:
        """Replace the lines of a document, and return whether they fit."""
        lines = self._lines_of(document)
        new = [Span(1, document.last, 0.0)] if whole else [each for each in spans if each not in lines.spans]
        spans = merged(spans, document)
        before = self._tokens(lines, lines.spans, whole=lines.is_whole)
        after = self._tokens(lines, spans, whole=whole)
        if after - before > self._left:
            return False
        self._left -= after - before
        lines.spans, lines.is_whole = spans, whole
        self._chosen[document.key] = lines
        for span in new:
            self._seen.add(document.text(span.first, span.last), document.key)
        return True

    def _take_part(self, document: Document, span: Span, room: int) -> bool:
        """Add the first lines of some lines, as many as fit in ``room``."""
        lines = self._lines_of(document)
        before = self._tokens(lines, lines.spans, whole=False)

        def fits(last: int) -> bool:
            spans = merged([*lines.spans, Span(span.first, last, span.score)], document)
            return self._tokens(lines, spans, whole=False) - before <= room

        low, high = span.first + SMALLEST_LINES - 2, span.last
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        if low < span.first + SMALLEST_LINES - 1 or not fits(low):
            return False
        return self._take(document, [*lines.spans, Span(span.first, low, span.score)])

    def _extend(self, lines: ChosenLines) -> None:
        """Add the passages next to the chosen ones, after them first."""
        document = lines.document
        if lines.is_whole or not document.is_whole:
            return
        every = document.passages()
        for span in list(lines.spans):
            after = next((each for each in every if each.last > span.last), None)
            before = next((each for each in reversed(every) if each.first < span.first), None)
            for near in (after, before):
                if near is None:
                    continue
                first, last = (span.last + 1, near.last) if near is after else (near.first, span.first - 1)
                if self._seen.owner_of(document.text(first, last)) is not None:
                    continue
                near_span = Span(first, last, 0.0)
                if first <= last and self._take(document, [*lines.spans, near_span]):
                    lines.beside.add(first)

    def _lines_of(self, document: Document) -> ChosenLines:
        """Return the chosen lines of a document, none if it is new."""
        lines = self._drafts.get(document.key)
        if lines is None:
            lines = self._drafts[document.key] = ChosenLines(document, self._count)
        return lines

    # Tokens

    def _tokens(self, lines: ChosenLines, spans: Sequence[Span], *, whole: bool) -> int:
        return sum(item.tokens for item in lines.items(spans, whole=whole))

    def _count(self, item: ContextItem) -> int:
        return self._tokenizer.count(rendered_item(ANY_NUMBER, item, self._format))


def _place(document: Document) -> float:
    return math.inf if document.pinned is None else document.pinned
