"""Documents to pack: resources with their lines, and the passages in them that match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from carrel.context.outline import Outline
from carrel.search.passages import passages_of
from carrel.search.results import SearchPassage
from carrel.sources.documents.query import text_uri
from carrel.wire.resources import Resource

__all__ = ["Document", "Span", "document_of"]


class Span(NamedTuple):
    """Lines of a document, from the first to the last, with their score."""

    first: int
    last: int
    score: float


class Document(msgspec.Struct, kw_only=True, eq=False):
    """Resource that may be packed.

    ``lines`` are its lines by number, from 1; without ``is_whole``, only the lines of its passages. ``spans`` are its
    passages that match, best first. ``pinned`` is the place among the pinned resources, None if it is not pinned.
    ``is_open``: the user has it open.
    """

    server: str
    resource: Resource
    lines: dict[int, str]
    is_whole: bool
    spans: Sequence[Span]
    outline: Outline
    pinned: int | None = None
    is_open: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Server and URI, which identify the document."""
        return self.server, self.resource.uri

    @property
    def title(self) -> str:
        """Title of the resource, or its name."""
        return self.resource.title or self.resource.name

    @property
    def score(self) -> float:
        """Score of the best passage."""
        return max((span.score for span in self.spans), default=0.0)

    def text(self, first: int, last: int) -> str:
        """Return the text of some lines."""
        return "\n".join(self.lines.get(number, "") for number in range(first, last + 1))

    @property
    def last(self) -> int:
        """Number of the last line."""
        return next(reversed(self.lines))

    def passages(self) -> list[Span]:
        """Return all passages of a whole document, in order, without scores."""
        text, kind = "\n".join(self.lines.values()), _text_type(self.resource)
        return [Span(passage.first, passage.last, 0.0) for passage in passages_of(text, kind)]


def document_of(
    resource: Resource,
    server: str,
    text: str | None,
    passages: Iterable[SearchPassage],
    pinned: int | None = None,
) -> Document | None:
    """Return the document of a resource: from its whole ``text``, or, if that is None, from the texts of its passages.

    None if there is no text.
    """
    found = list(passages)
    lines: dict[int, str] = {}
    if text is not None:
        lines = dict(enumerate(text.rstrip().split("\n"), 1)) if text.strip() else {}
    else:
        for passage in found:
            if passage.first_line is not None:
                lines.update(enumerate(passage.text.rstrip("\n").split("\n"), passage.first_line))
        lines = dict(sorted(lines.items()))
    if not lines:
        return None
    kind = _text_type(resource)
    document = Document(
        server=server,
        resource=resource,
        lines=lines,
        is_whole=text is not None,
        spans=(),
        outline=Outline(lines, kind, resource.uri),
        pinned=pinned,
    )
    spans: dict[tuple[int, int], Span] = {}
    for passage in found:
        if passage.first_line is not None and passage.last_line is not None:
            first, last = passage.first_line, min(passage.last_line, document.last)
        else:  # its name matches: the beginning stands for it
            begin = document.passages()[0]
            first, last = begin.first, begin.last
        if first <= last:
            spans.setdefault((first, last), Span(first, last, passage.score))
    document.spans = sorted(spans.values(), key=lambda span: (-span.score, span.first, span.last))
    return document


def _text_type(resource: Resource) -> str | None:
    """Return the MIME type of the text of a resource: of a document such as a PDF, it is Markdown."""
    return resource.mime_type if text_uri(resource) == resource.uri else "text/markdown"
