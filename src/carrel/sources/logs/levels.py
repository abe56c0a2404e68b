"""Severity levels of log entries: their names in common loggers, in one order."""

from __future__ import annotations

import re

__all__ = ["LEVELS", "find_level", "level_of", "rank_of"]

LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels, the least severe first: trace, and the levels of RFC 5424."""

OTHER_NAMES = {
    "trace": "finest finer verbose t v trc",
    "debug": "fine config dbg d dbug",
    "info": "information informational inf i log",
    "notice": "n",
    "warning": "warn wrn w",
    "error": "err e severe eror",
    "critical": "crit c fatal f ftl panic dpanic",
    "alert": "a",
    "emergency": "emerg",
}
NAMES = {name: level for level, names in OTHER_NAMES.items() for name in (level, *names.split())}
RANKS = {level: rank for rank, level in enumerate(LEVELS)}

#: Levels of syslog and journald, by number.
SYSLOG = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")

#: Level words in the text of an entry; one letter is no word.
WORD = re.compile(
    r"\b(TRACE|FINEST|FINER|FINE|DEBUG|INFO|INFORMATION|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|PANIC"
    r"|ALERT|EMERG|EMERGENCY)\b"
    r"|(?:\[|\blevel=)(trace|debug|info|notice|warn|warning|error|crit|critical|fatal|alert|emerg)\b"
)
NEAR = 120  # characters in which a level is looked for


def level_of(value: object) -> str | None:
    """Parse a level name or number; pino and bunyan use numbers from 10 to 60."""
    if isinstance(value, str):
        return NAMES.get(value.strip().lower()) or (
            level_of(int(value)) if value.isdecimal() and len(value) < 4 else None
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if 0 <= value < len(SYSLOG):
        return SYSLOG[int(value)]
    if 10 <= value <= 60:
        return ("trace", "debug", "info", "warning", "error", "critical")[int(value) // 10 - 1]
    return None


def rank_of(level: str | None) -> int:
    """Return the index of a level in the order of severity; -1 for none."""
    return -1 if level is None else RANKS[level]


def find_level(text: str) -> str | None:
    """Return the level whose name is near the beginning of a text."""
    found = WORD.search(text[:NEAR])
    return None if found is None else NAMES[(found[1] or found[2]).lower()]
