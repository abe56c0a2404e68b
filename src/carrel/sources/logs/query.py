"""Query of a URI: the requested entries of a log, their pattern (RE2), and their format; and redaction of secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from math import inf
from typing import Any

import msgspec

from carrel.errors import ConfigError, InvalidParams
from carrel.sources.content.query import invalid_parameter, read_number, read_parameters
from carrel.sources.logs.entries import LogEntry, Redact
from carrel.sources.logs.levels import LEVELS, level_of, rank_of
from carrel.sources.logs.times import duration_of, instant_of
from carrel.sources.packages import needed

__all__ = ["NAMES", "LogQuery", "matcher", "parameters_of", "read_query", "redactor"]

NAMES = ("timeframe", "since", "until", "level", "match", "tail", "skip", "fields", "log")
MAX_FIELDS = 50
ROUNDING = 4e-7  # seconds: a time that was shown to the microsecond is found again

MAX_PATTERN = 1000  # characters
MEMORY = 8 * 1024 * 1024  # bytes that a pattern may take
PLAIN = frozenset(" -_/:,;@#%&=<>!~'\"")  # with letters and digits: text that means itself

SECRETS = (
    r"(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret)[\"']?\s*[:=]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
    r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)?\s*)([A-Za-z0-9+/=._~-]{6,})",
    r"([a-z][a-z0-9+.-]*://[^\s:/@]*:)([^\s/@]+)@",
    r"()(\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,})",
)
ENDS = ("", "", "@", "")


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
    """Return the variables in the query of a URI that have a value, decoded.

    Raises:
        InvalidParams: a parameter is unknown, has no value, or is repeated.
    """
    return {name: value for name, value in read_parameters(query, NAMES).items() if value}


def read_query(given: Mapping[str, str], now: float, zone: tzinfo | None, most: int) -> LogQuery:
    """Parse variables into a query; ``most`` is the maximum number of entries.

    Raises:
        InvalidParams: the value of a parameter is not valid.
    """
    since, until = -inf, inf
    if "timeframe" in given:
        if "since" in given:
            raise invalid_parameter("timeframe", "it can be combined with until, but not with since")
        if "until" in given:
            until = instant_of(given["until"], "until", now, zone) + ROUNDING
        since = min(now, until) - duration_of(given["timeframe"])
    else:
        since = instant_of(given["since"], "since", now, zone) if "since" in given else since
        until = instant_of(given["until"], "until", now, zone) + ROUNDING if "until" in given else until
    if since > until:
        raise invalid_parameter("since", "it is later than until")
    level = given.get("level")
    if level is not None and (level := level_of(level)) is None:
        raise invalid_parameter("level", f"there is no level {given['level'][:50]!r}; there are {', '.join(LEVELS)}")
    fields = tuple(filter(None, given.get("fields", "").split(",")))
    if len(fields) > MAX_FIELDS:
        raise invalid_parameter("fields", f"there may be {MAX_FIELDS} at most")
    return LogQuery(
        since,
        until,
        level,
        matcher(given["match"]) if "match" in given else None,
        read_number(given, "tail", most, 0),
        read_number(given, "skip", 100_000, 0),
        fields,
        given.get("log"),
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches a text for a pattern, in time linear in the text.

    Raises:
        InvalidParams: the pattern is not a valid RE2 pattern.
    """
    if len(pattern) > MAX_PATTERN:
        raise InvalidParams(f"Invalid params: match: a pattern has at most {MAX_PATTERN} characters", parameter="match")
    if all(character.isalnum() or character in PLAIN for character in pattern):
        return lambda text: pattern in text
    try:
        compiled = compiled_pattern(pattern)
    except ValueError as error:
        message = f"Invalid params: match: {pattern[:100]!r} is not a pattern of RE2 ({error}); text means itself"
        raise InvalidParams(message, parameter="match") from None
    return lambda text: compiled.search(text) is not None


def redactor(patterns: Iterable[str], *, secrets: bool) -> Redact | None:
    """Return a function that replaces matches with ``***``, or None if there are no patterns to redact.

    Raises:
        ConfigError: a pattern is not a valid RE2 pattern, or the package is missing.
    """
    try:
        rules = [(compiled_pattern(pattern), "***") for pattern in patterns]
        if secrets:
            ended = zip(SECRETS, ENDS, strict=True)
            rules += [(compiled_pattern(pattern), rf"\1***{end}") for pattern, end in ended]
    except ValueError as error:
        raise ConfigError(f"redact: a pattern is not one of RE2: {error}") from None
    if not rules:
        return None

    def redact(text: str) -> str:
        for rule, replacement in rules:
            text = rule.sub(replacement, text)
        return text

    return redact


def compiled_pattern(pattern: str) -> Any:
    """Compile a pattern.

    Raises:
        ValueError: the pattern is not a valid RE2 pattern.
        ConfigError: the package is missing.
    """
    with needed("patterns in logs", "logs"):
        import re2  # type: ignore[import-untyped]
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else "not valid"
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
