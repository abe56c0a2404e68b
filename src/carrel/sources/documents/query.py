"""Query of a URI that requests the text of a document: ``?page=3`` or ``?view=text``, and a window ``&lines=1-100``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from carrel.errors import InvalidParams
from carrel.sources.content.window import Window, number, parse_window

if TYPE_CHECKING:
    from carrel.wire.resources import Resource

__all__ = ["QUERIES", "TEXT", "VIEW", "DocumentWindow", "parse_wanted", "text_uri"]

QUERIES = ("page", "view")
"""Parameters that request the text of a document."""
VIEW = "view=text"
TEXT = "carrel/text"
"""Name in ``_meta`` of a document of the reference to its text, relative to its URI: ``?view=text``."""


class DocumentWindow(NamedTuple):
    """Requested text: the URI of the document, the page (None: the whole text), and a window of the text."""

    document: str
    page: int | None
    window: Window | None


def parse_wanted(uri: str) -> DocumentWindow | None:
    """Parse a URI; None if it does not request text.

    Raises:
        InvalidParams: there is no such page or view.
    """
    document, _, query = uri.partition("?")
    first, _, remaining = query.partition("&")
    name, _, value = first.partition("=")
    if name not in QUERIES:
        return None
    window = parse_window(remaining)
    if name == "view":
        if first != VIEW:
            raise InvalidParams(
                f"Invalid params: view: there is no view {value[:50]!r}; it should be {VIEW}", parameter=name
            )
        return DocumentWindow(document, None, window)
    page = number(value)
    if not page:
        raise InvalidParams(
            f"Invalid params: page: {value[:50]!r} is not a page; they count from 1, as in page=1", parameter=name
        )
    return DocumentWindow(document, page, window)


def text_uri(resource: Resource) -> str:
    """Return the URI of the text of a resource: its own, unless it is a document whose text is elsewhere."""
    reference = (resource.meta or {}).get(TEXT)
    return f"{resource.uri}?{VIEW}" if reference == f"?{VIEW}" and "?" not in resource.uri else resource.uri
