"""Reader of ``[[limits.rules]]``: limit rules from TOML tables, with the line of each problem.

[[limits.rules]]
role = "viewer"
requests = "100/minute"
burst = 20
tools = "search_*"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Literal, cast, get_args

from carrel.catalog.rules import READING, Rule, Rules
from carrel.errors import ConfigError
from carrel.near_names import near
from carrel.policy.limiter import LimitRule, Rate
from carrel.policy.policy import EVERYBODY
from carrel.policy.reading import TARGETS, Where

__all__ = ["LIMIT_KEYS", "PER", "RATE", "read_limits"]

Per = Literal["client", "address", "all"]
#: Whose requests are counted together.
PER: tuple[str, ...] = get_args(Per)
#: Keys that limit something. ``[limits]`` may have them too, for all requests of each client.
LIMIT_KEYS = ("requests", "burst", "bytes", "concurrent")
RULE_KEYS = (*LIMIT_KEYS, "role", *TARGETS, "per")
#: Maximum of a limit.
MOST = 10**15
UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
#: Rates as they are written: 100/minute, 10 MiB / second.
RATE = r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*([kKmMgG]?[iI]?[bB])?\s*/\s*(second|minute|hour|day)\s*$"
_RATE = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*(?:([kmg]?i?)b)?\s*/\s*(\w+)\s*", re.IGNORECASE)


def read_limits(table: dict[str, Any], roles: Collection[str], where: Where) -> tuple[list[LimitRule], list[str]]:
    """Return the limit rules of a ``[limits]`` table, and the problems in them, each with file and line.

    The table may have the keys of a rule without a role and patterns itself, and ``rules``. ``roles`` are the names of
    the roles. Rules with a problem are left out.
    """
    found: list[LimitRule] = []
    problems: list[str] = []
    plain = {key: value for key, value in table.items() if key in LIMIT_KEYS}
    rows: list[tuple[tuple[str | int, ...], object]] = [(("limits",), plain)] if plain else []
    rules = table.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        problems.append(f"{where(('limits', 'rules'))}: rules are tables: write [[limits.rules]] before each")
        rules = []
    rows += [(("limits", "rules", index), rule) for index, rule in enumerate(rules)]
    for path, row in rows:
        try:
            found.append(_LimitRuleReader(path, cast("dict[str, Any]", row), roles, where).read())
        except ConfigError as error:
            problems.append(str(error))
    return found, problems


class _LimitRuleReader:
    """Reader of one rule."""

    def __init__(
        self, path: tuple[str | int, ...], table: dict[str, Any], roles: Collection[str], where: Where
    ) -> None:
        self._path = path
        self._table = table
        self._known = roles
        self._where = where

    def read(self) -> LimitRule:
        """Return the rule.

        Raises:
            ConfigError: the rule is invalid.
        """
        table = self._table
        for key in table:
            if key not in RULE_KEYS:
                raise self._error(key, f"a limit rule has no {key!r}{near(key, RULE_KEYS)}")
        if not {"requests", "bytes", "concurrent"} & table.keys():
            raise self._error(None, 'a limit rule needs a limit, for example requests = "100/minute"')
        if "burst" in table and "requests" not in table:
            raise self._error("burst", "burst is how many requests may come at once: it needs requests")
        per = table.get("per", "client")
        if per not in PER:
            raise self._error("per", f"per: {per!r} is not one of {', '.join(PER)}")
        key = next((key for key in (*LIMIT_KEYS, "role") if key in table), "rules")
        return LimitRule(
            requests=self._rate("requests", self._count("burst")),
            bytes=self._rate("bytes", None),
            concurrent=self._count("concurrent"),
            roles=frozenset(self._roles()),
            patterns=tuple(self._patterns()),
            per=cast("Per", per),
            where=self._where((*self._path, key) if self._path == ("limits",) else self._path),
        )

    def _count(self, key: str) -> int | None:
        value = self._table.get(key)
        if value is not None and (type(value) is not int or not 1 <= value <= MOST):
            shown = "the number" if type(value) is int and abs(value) > MOST else repr(value)
            raise self._error(key, f"{key}: {shown} is not a whole number from 1 to {MOST:,}")
        return value

    def _rate(self, key: str, burst: int | None) -> Rate | None:
        """Return a rate. Without ``burst``, all of the amount may come at once."""
        value = self._table.get(key)
        if value is None:
            return None
        example = "100/minute" if key == "requests" else "10MiB/minute"
        match = _RATE.fullmatch(value) if isinstance(value, str) else None
        unit = "" if match is None else match[3].lower()
        if match is None or unit not in UNITS or (key == "requests" and match[2] is not None):
            units = "a second, minute, hour or day"
            raise self._error(key, f"{key}: {value!r} is not a number in {units}, for example {example!r}")
        amount = float(match[1].replace("_", "")) * SIZES[(match[2] or "").lower()]
        if amount <= 0:
            raise self._error(key, f"{key}: 0 would allow nothing; rules of [access] deny")
        if amount > MOST:
            raise self._error(key, f"{key}: the amount is not from 1 to {MOST:,}")
        return Rate(amount, UNITS[unit], float(max(burst or amount, 1)))

    def _roles(self) -> Iterable[str]:
        for role in self._texts("role", EVERYBODY):
            if role != EVERYBODY and role not in self._known:
                hint = near(role, self._known) if self._known else ": [access.roles] has the roles"
                raise self._error("role", f"there is no role {role!r}{hint}")
            yield role

    def _patterns(self) -> Iterable[Rule]:
        for key, verbs in TARGETS.items():
            for pattern in self._texts(key):
                if "{" in pattern:
                    raise self._error(key, f"{pattern}: patterns of limits have no braces")
                rule = Rule(pattern, READING if key == "resources" else verbs)
                try:
                    Rules([rule]).view()
                except ConfigError as error:
                    raise self._error(key, str(error)) from None
                yield rule

    def _texts(self, key: str, *default: str) -> list[str]:
        """Return a text as a list of one, or the texts of a list."""
        if key not in self._table:
            return list(default)
        value = self._table[key]
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise self._error(key, f"{key}: expected a text, or a list of texts")
        return texts

    def _error(self, key: str | None, text: str) -> ConfigError:
        return ConfigError(f"{self._where(self._path if key is None else (*self._path, key))}: {text}")
