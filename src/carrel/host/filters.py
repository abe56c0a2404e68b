"""Filters: the terms that people write to select resources, templates, tools and prompts of a host.

``type:image changed:<7d -draft "red wine"``: see docs/host.md for the terms.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from typing import Any, Generic, TypeVar

import msgspec

from carrel.errors import ConfigError
from carrel.wire.base import Annotations
from carrel.wire.timestamps import modified_at

__all__ = ["FIELDS", "Hosted", "ItemFilter", "Term", "text_of", "uri_of"]

Test = Callable[[str, Any], bool]
T = TypeVar("T")

#: A term: an optional minus, and text in which quotes keep spaces together.
TERM = re.compile(r'(?:"[^"]*"?|[^\s"])+')
COMPARED = re.compile(r"(<=|>=|<|>|=|)(.+)")
COMPARISONS: dict[str, Callable[[float, float], bool]] = {"": eq, "=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
BYTES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}


class Hosted(msgspec.Struct, Generic[T], frozen=True):
    """Resource, template, tool, prompt or skill, with the name of its server."""

    server: str
    item: T


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """Term of a filter.

    ``text`` is the term as written, from ``start`` to ``end`` in the filter, in characters. ``field`` is None for
    words. ``problem`` says why the value is invalid.
    """

    text: str
    field: str | None
    value: str
    negated: bool
    start: int
    end: int
    problem: str | None = None


class ItemFilter:
    """Filter of a host's resources, templates, tools and prompts. An entry must match every valid term.

    Invalid terms have a ``problem``, and do not filter.

    Args:
        text: the terms, separated by white space.
        now: the time that ages such as ``changed:<1h`` are relative to, in seconds since 1970.
    """

    def __init__(self, text: str, *, now: float | None = None) -> None:
        self.text = text
        now = time.time() if now is None else now
        read = [_term(found.group(), found.start(), now) for found in TERM.finditer(text)]
        self.terms: Sequence[Term] = [term for term, _ in read]
        self._tests = [(term, test) for term, test in read if test is not None]

    @property
    def words(self) -> str:
        """The words of the filter, which may be searched in contents too."""
        return " ".join(term.value for term in self.terms if term.field is None and not term.negated)

    @property
    def fields(self) -> ItemFilter:
        """The filter without its words."""
        return ItemFilter(" ".join(term.text for term in self.terms if term.field is not None or term.negated))

    def __bool__(self) -> bool:
        return bool(self._tests)

    def matches(self, server: str, item: Any) -> bool:
        """Return whether an entry of a server matches."""
        return all(test(server, item) is not term.negated for term, test in self._tests)

    def select(self, entries: Sequence[Hosted[T]]) -> Sequence[Hosted[T]]:
        """Return the entries that match: term by term, which is faster for a long list than ``matches``."""
        found = entries
        for term, test in self._tests:
            found = [entry for entry in found if test(entry.server, entry.item) is not term.negated]
        return found

    def check(self) -> None:
        """Validate the filter.

        Raises:
            ConfigError: a term has a value that its field cannot have.
        """
        for term in self.terms:
            if term.problem is not None:
                raise ConfigError(f"{term.text}: {term.problem}")


def _term(text: str, start: int, now: float) -> tuple[Term, Test | None]:
    negated = text.startswith("-") and len(text) > 1
    rest = text[negated:]
    name, colon, value = rest.partition(":")
    field = name.lower() if colon and name.lower() in FIELDS else None
    value = (rest if field is None else value).replace('"', "")
    test, problem = None, None
    try:
        test = _words(value) if field is None else FIELDS[field](value, now)
    except ValueError as error:
        problem = str(error)
    end = start + len(text)
    return Term(text=text, field=field, value=value, negated=negated, start=start, end=end, problem=problem), test


def text_of(item: Any) -> str:
    """Return the text of an entry in which words are looked for: its URI, name, title and description, casefolded."""
    texts = (uri_of(item), *(getattr(item, name, None) for name in ("name", "title", "description")))
    return "\n".join(text for text in texts if text).casefold()


def _words(value: str) -> Test | None:
    word = value.casefold()
    return (lambda _, item: word in text_of(item)) if word else None


def _server(value: str, now: float) -> Test:
    pattern = _given(value).casefold()

    @lru_cache(256)
    def matches(server: str) -> bool:
        return fnmatchcase(server.casefold(), pattern)

    return lambda server, _: matches(server)


def _type(value: str, now: float) -> Test:
    pattern = _given(value).lower()
    pattern = pattern if "/" in pattern else f"{pattern}/*"

    @lru_cache(256)  # lists have few media types
    def matches(media_type: str | None) -> bool:
        return fnmatchcase((media_type or "").partition(";")[0].lower(), pattern)

    return lambda _, item: matches(getattr(item, "mime_type", None))


def _audience(value: str, now: float) -> Test:
    if value not in ("user", "assistant"):
        raise ValueError("the audience is user or assistant")
    return lambda _, item: not (noted := _notes(item).audience) or value in noted


def _priority(value: str, now: float) -> Test:
    compare, number = _compared(value)
    try:
        wanted = float(number)
    except ValueError:
        raise ValueError("write a number from 0 to 1, as in priority:>0.5") from None
    return lambda _, item: compare(_notes(item).priority or 0.0, wanted)


def _changed(value: str, now: float) -> Test:
    compare, given = _compared(value)
    if (age := re.fullmatch(r"(\d+(?:\.\d+)?)([smhdwy])", given)) is not None:
        limit = float(age[1]) * SECONDS[age[2]]
        return lambda _, item: (at := modified_at(_notes(item))) is not None and compare(now - at, limit)
    try:
        day = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError("write an age or a date, as in changed:<7d or changed:>2026-01-31") from None
    moment = (day if day.tzinfo is not None else day.replace(tzinfo=UTC)).timestamp()
    if compare is eq and len(given) == len("2026-01-31"):  # the whole day
        return lambda _, item: (at := modified_at(_notes(item))) is not None and moment <= at < moment + SECONDS["d"]
    return lambda _, item: (at := modified_at(_notes(item))) is not None and compare(at, moment)


def _size(value: str, now: float) -> Test:
    compare, given = _compared(value)
    size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", given.lower())
    if size is None or size[2] not in BYTES:
        raise ValueError("write a size, as in size:<1MB")
    limit = float(size[1]) * BYTES[size[2]]
    return lambda _, item: (known := getattr(item, "size", None)) is not None and compare(known, limit)


def _under(value: str, now: float) -> Test:
    root = _given(value).rstrip("/")
    below = f"{root}/"
    return lambda _, item: (uri := uri_of(item)).startswith(below) or uri == root


def uri_of(item: Any) -> str:
    """Return the URI or URI template of an entry, or an empty text if it has neither."""
    uri: str = getattr(item, "uri", None) or getattr(item, "uri_template", None) or ""
    return uri


def _given(value: str) -> str:
    if not value:
        raise ValueError("the value is missing")
    return value


def _compared(value: str) -> tuple[Callable[[float, float], bool], str]:
    found = COMPARED.fullmatch(value)
    if found is None:
        raise ValueError("the value is missing")
    return COMPARISONS[found[1]], found[2]


def _notes(item: Any) -> Annotations:
    return getattr(item, "annotations", None) or NO_NOTES


NO_NOTES = Annotations()
#: Fields of terms, with the functions that return their tests.
FIELDS: dict[str, Callable[[str, float], Test]] = {
    "server": _server,
    "type": _type,
    "audience": _audience,
    "priority": _priority,
    "changed": _changed,
    "size": _size,
    "under": _under,
}
