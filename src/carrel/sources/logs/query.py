"""Query of a URI: the requested entries of a log, and their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from math import inf

import msgspec

from carrel.errors import InvalidParams
from carrel.sources.logs.entries import LogEntry
from carrel.sources.logs.levels import LEVELS, level_of, rank_of
from carrel.sources.logs.match import matcher
from carrel.sources.logs.times import duration_of, instant_of
from carrel.uri.parse import percent_decode

__all__ = ["NAMES", "LogQuery", "parameters_of", "read_query"]

NAMES = ("timeframe", "since", "until", "level", "match", "tail", "skip", "fields", "log")
MAX_FIELDS = 50
ROUNDING = 4e-7  # seconds: a time that was shown to the microsecond is found again


class LogQuery(msgspec.Struct, frozen=True):
    """Requested entries: a time range (seconds since 1970), the minimum level, a pattern, and the newest ``tail``
    entries.

    ``skip`` is the number of newest entries to skip. With ``fields``, each entry is a line of JSON with these fields;
    ``*`` means all fields.
    """

    since: float = -inf
    until: float = inf
    level: str | None = None
    matches: Callable[[str], bool] | None = None
    tail: int = 0
    skip: int = 0
    fields: tuple[str, ...] = ()
    log: str | None = None

    def accepts(self, entry: LogEntry) -> bool:
        """Return whether an entry is of the level and matches."""
        if self.level is not None and rank_of(entry.level) < rank_of(self.level):
            return False
        return self.matches is None or self.matches(entry.text)


def parameters_of(query: str) -> dict[str, str]:
    """Return the variables in the query of a URI, decoded.

    Raises:
        InvalidParams: a parameter is unknown, has no value, or is repeated.
    """
    found: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        if name not in NAMES:
            raise invalid_query("query", f"there is no {name[:50]!r}; there are {', '.join(NAMES)}")
        if not equals:
            raise invalid_query(name, "it has no value")
        if name in found:
            raise invalid_query(name, "it is given twice")
        try:
            value = percent_decode(value)
        except ValueError:
            raise invalid_query(name, "it is not percent-encoded") from None
        if value:
            found[name] = value
    return found


def read_query(given: Mapping[str, str], now: float, zone: tzinfo | None, most: int) -> LogQuery:
    """Parse variables into a query; ``most`` is the maximum number of entries.

    Raises:
        InvalidParams: the value of a parameter is not valid.
    """
    since, until = -inf, inf
    if "timeframe" in given:
        if "since" in given:
            raise invalid_query("timeframe", "it goes with until, and not with since")
        if "until" in given:
            until = instant_of(given["until"], "until", now, zone) + ROUNDING
        since = min(now, until) - duration_of(given["timeframe"])
    else:
        since = instant_of(given["since"], "since", now, zone) if "since" in given else since
        until = instant_of(given["until"], "until", now, zone) + ROUNDING if "until" in given else until
    if since > until:
        raise invalid_query("since", "it is later than until")
    level = given.get("level")
    if level is not None and (level := level_of(level)) is None:
        raise invalid_query("level", f"there is no level {given['level'][:50]!r}; there are {', '.join(LEVELS)}")
    fields = tuple(filter(None, given.get("fields", "").split(",")))
    if len(fields) > MAX_FIELDS:
        raise invalid_query("fields", f"there may be {MAX_FIELDS} at most")
    return LogQuery(
        since,
        until,
        level,
        matcher(given["match"]) if "match" in given else None,
        count(given, "tail", most),
        count(given, "skip", 100_000),
        fields,
        given.get("log"),
    )


def count(given: Mapping[str, str], name: str, most: int) -> int:
    text = given.get(name)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise invalid_query(name, f"{text[:50]!r} is not a number from 1 to {most:,}")
    return int(text)


def invalid_query(name: str, reason: str) -> InvalidParams:
    return InvalidParams(f"Invalid params: {name}: {reason}", parameter=name)
