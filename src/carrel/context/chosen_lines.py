"""ChosenLines: the lines of one document that are packed, and the items that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from carrel.context.documents import Document, Span
from carrel.context.reasons import Reasons
from carrel.context.results import ContextItem, Reason
from carrel.sources.documents.query import text_uri

__all__ = ["ChosenLines", "merged"]

#: Lines between two passages up to which they become one item.
GAP = 3
#: The line between the headings above some lines and these lines.
ELLIPSIS = "…"


class ChosenLines:
    """Lines of a document. ``count`` returns the tokens of a rendered item."""

    def __init__(self, document: Document, count: Callable[[ContextItem], int]) -> None:
        self.document = document
        self.spans: list[Span] = []
        self.is_whole = False
        self.matched = 0
        """Number of passages that were chosen because they match."""
        self.beside: set[int] = set()
        """First lines of passages that were chosen because they are next to one that matches."""
        self._count = count
        self._made: dict[tuple[int, int], ContextItem] = {}

    def items(self, spans: Iterable[Span], *, whole: bool) -> list[ContextItem]:
        """Return the items for some lines, with their tokens and without reasons."""
        if whole:
            return [self._item(Span(1, self.document.last, self.document.score), whole=True)]
        return [self._item(span, whole=False) for span in spans]

    def _item(self, span: Span, *, whole: bool) -> ContextItem:
        key = (0, 0) if whole else (span.first, span.last)
        made = self._made.get(key)
        if made is None:
            document = self.document
            text, first = document.text(span.first, span.last), span.first
            if not whole:
                above, first = self._above(span.first)
                text = "\n".join([*above, *([ELLIPSIS] if above else ()), document.text(first, span.last)])
            item = ContextItem(
                server=document.server,
                uri=document.resource.uri,
                link=document.resource.uri if whole else text_uri(document.resource),
                title=document.title,
                lines=None if whole else (first, span.last),
                tokens=0,
                score=0.0,
                reason="",
                text=text,
            )
            made = self._made[key] = msgspec.structs.replace(item, tokens=self._count(item))
        return msgspec.structs.replace(made, score=round(span.score, 4))

    def _above(self, first: int) -> tuple[list[str], int]:
        """Return the lines above a line that make it readable, and where the lines begin that follow them at once."""
        numbers = self.document.outline.above(first)
        while numbers and first - numbers[-1] <= GAP:
            first = numbers.pop()
        return [self.document.lines[number] for number in numbers], first

    def explained(self, reasons: Reasons) -> list[ContextItem]:
        """Return the items with their reasons."""
        return [self._explained(item, reasons) for item in self.items(self.spans, whole=self.is_whole)]

    def _explained(self, item: ContextItem, reasons: Reasons) -> ContextItem:
        document = self.document
        first, last = item.lines or (1, document.last)
        headings = [document.lines[number] for number in document.outline.above(first)]
        why = Reason(matched=False)
        if document.pinned is None or self.matched:
            why = reasons.of(document.title, headings, [document.lines[at] for at in self._lines(first, last)])
        why = msgspec.structs.replace(
            why,
            pinned=document.pinned is not None,
            open=document.is_open,
            beside=any(first <= at <= last for at in self.beside),
            whole=item.lines is None,
            small=item.lines is None and document.pinned is None,
        )
        return msgspec.structs.replace(item, reason=str(why), why=why)

    def _lines(self, first: int, last: int) -> list[int]:
        return [number for number in range(first, last + 1) if number in self.document.lines]


def merged(spans: Iterable[Span], document: Document) -> list[Span]:
    """Return spans in order, with adjacent ones merged if the document has the lines between them."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.first - found[-1].last - 1 <= GAP:
            between = range(found[-1].last + 1, span.first)
            if all(number in document.lines for number in between):
                before = found.pop()
                span = Span(before.first, max(before.last, span.last), max(before.score, span.score))
        found.append(span)
    return found
