"""Differences between two texts, as hunks of lines, in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from carrel.studio.api import DiffLine, Hunk

__all__ = ["hunks_between", "pretty"]

#: Lines around changed lines.
AROUND = 3
#: Changed region, in lines, up to which lines are compared one by one, and lines that are shown of a larger one.
MAX_COMPARED, MAX_SHOWN = 3000, 500


def pretty(value: object) -> str:
    """Return a value as JSON with indented lines."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def hunks_between(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[Hunk, ...], bool]:
    """Return the difference between the lines of two texts, and whether it is complete.

    Equal lines at both ends are skipped. If the rest is long, it is shown as replaced, and shortened.
    """
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start == len(old) == len(new):
        return (), True
    if max(len(old), len(new)) - start - end > MAX_COMPARED:
        return _replaced(old, new, start, end)
    first = max(0, start - AROUND)
    old_part = old[first : len(old) - max(0, end - AROUND)]
    new_part = new[first : len(new) - max(0, end - AROUND)]
    matcher = SequenceMatcher(None, old_part, new_part, autojunk=False)
    hunks = []
    for group in matcher.get_grouped_opcodes(AROUND):
        changes: list[DiffLine] = []
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                pairs = zip(range(old_from, old_to), range(new_from, new_to), strict=True)
                changes += [_kept(old_part[one], first + one + 1, first + two + 1) for one, two in pairs]
            else:
                changes += [_removed(old_part[at], first + at + 1) for at in range(old_from, old_to)]
                changes += [_added(new_part[at], first + at + 1) for at in range(new_from, new_to)]
        hunks.append(Hunk(first=(first + group[0][1] + 1, first + group[0][3] + 1), lines=tuple(changes)))
    return tuple(hunks), True


def _replaced(old: Sequence[str], new: Sequence[str], start: int, end: int) -> tuple[tuple[Hunk, ...], bool]:
    removed = [_removed(old[at], at + 1) for at in range(start, min(len(old) - end, start + MAX_SHOWN))]
    added = [_added(new[at], at + 1) for at in range(start, min(len(new) - end, start + MAX_SHOWN))]
    return (Hunk(first=(start + 1, start + 1), lines=(*removed, *added)),), False


def _kept(text: str, old: int, new: int) -> DiffLine:
    return DiffLine(kind=" ", text=text, old=old, new=new)


def _removed(text: str, old: int) -> DiffLine:
    return DiffLine(kind="-", text=text, old=old, new=None)


def _added(text: str, new: int) -> DiffLine:
    return DiffLine(kind="+", text=text, old=None, new=new)
