"""Versions of components: their order, and specifications that select some of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, TypeVar

__all__ = [
    "VersionKey",
    "VersionSpec",
    "compare_versions",
    "dedupe_with_versions",
    "is_version_greater",
    "max_version",
    "min_version",
    "parse_version_key",
    "version_sort_key",
]

C = TypeVar("C", bound=Any)

_NUMBERED = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-._]?(a|b|c|rc|alpha|beta|pre|preview)[-._]?(\d*))?"
    r"(?:-(\d+)|[-._]?(?:post|rev|r)[-._]?(\d*))?(?:[-._]?dev[-._]?(\d*))?(?:\+[a-z0-9.\-_]+)?",
    re.IGNORECASE,
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1}
#: Versions that no version matches.
_NONE = "__impossible__"


@total_ordering
class VersionKey:
    """Position of a version in the order: none, then text, then numbers as in PEP 440."""

    __slots__ = ("_order", "_raw")

    def __init__(self, version: str | None) -> None:
        self._raw = version
        self._order = _order_of(version)

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, VersionKey) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._order < other._order if isinstance(other, VersionKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._order)

    def __repr__(self) -> str:
        return f"VersionKey({self._raw!r})"


def _order_of(version: str | None) -> tuple[Any, ...]:
    if version is None:
        return (0,)
    found = _NUMBERED.fullmatch(version)
    if found is None:
        return (1, version)
    epoch, release, stage, number, dash, post, development = found.groups()
    numbers = [int(part) for part in release.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    after = -1 if dash is None and post is None else int(dash or post or 0)
    before = (3, 0) if stage is None else (_STAGES.get(stage.lower(), 2), int(number or 0))
    if stage is None and development is not None and after < 0:
        before = (-1, 0)
    early = (1, 0) if development is None else (0, int(development or 0))
    return (2, int(epoch or 0), tuple(numbers), before, after, early)


def parse_version_key(version: str | None) -> VersionKey:
    """Return the position of a version in the order."""
    return VersionKey(version)


def version_sort_key(component: Any) -> tuple[VersionKey, str]:
    """Return the key by which components are sorted by version."""
    return VersionKey(component.version), component.version or ""


def compare_versions(a: str | None, b: str | None) -> int:
    """Return -1, 0 or 1 for an older, equal or newer version."""
    return (VersionKey(a) > VersionKey(b)) - (VersionKey(a) < VersionKey(b))


def is_version_greater(a: str | None, b: str | None) -> bool:
    """Return whether a version is newer than another one."""
    return compare_versions(a, b) > 0


def max_version(a: str | None, b: str | None) -> str | None:
    """Return the newer version; None is ignored."""
    return max((each for each in (a, b) if each is not None), key=VersionKey, default=None)


def min_version(a: str | None, b: str | None) -> str | None:
    """Return the older version; None is ignored."""
    return min((each for each in (a, b) if each is not None), key=VersionKey, default=None)


@dataclass
class VersionSpec:
    """Versions from ``gte`` up to but not including ``lt``, or only ``eq``."""

    gte: str | None = None
    lt: str | None = None
    eq: str | None = None

    def matches(self, version: str | None, *, match_none: bool = True) -> bool:
        """Return whether a version is one of these. A component without a version counts if ``match_none`` is true."""
        if version is None:
            return match_none
        key = VersionKey(version)
        if self.eq is not None:
            return key == VersionKey(self.eq)
        above = self.gte is None or key >= VersionKey(self.gte)
        return above and (self.lt is None or key < VersionKey(self.lt))

    def intersect(self, other: VersionSpec | None) -> VersionSpec:
        """Return the versions that both specifications match."""
        if other is None:
            return self
        for one, two in ((self, other), (other, self)):
            if one.eq is not None:
                return one if two.matches(one.eq) else VersionSpec(eq=_NONE)
        return VersionSpec(max_version(self.gte, other.gte), min_version(self.lt, other.lt))


def dedupe_with_versions(components: Sequence[C], key_fn: Callable[[C], str]) -> list[C]:
    """Return the newest version of each component, which lists all versions in its ``_meta``."""
    groups: dict[str, list[C]] = {}
    for each in components:
        groups.setdefault(key_fn(each), []).append(each)
    return [_newest(each) for each in groups.values()]


def _newest(components: list[Any]) -> Any:
    found = max(components, key=version_sort_key)
    versions = sorted((each.version for each in components if each.version is not None), key=VersionKey, reverse=True)
    if not versions:
        return found
    meta = found.meta or {}
    return found.model_copy(update={"meta": {**meta, "fastmcp": {**meta.get("fastmcp", {}), "versions": versions}}})
