"""Interfaces: what servers offer, and what changed in it since the lists were read before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from carrel.printable import printable
from carrel.studio.api import Hunk, ItemKind, Payload
from carrel.studio.differences import hunks_between, pretty
from carrel.studio.events import PageEvents
from carrel.studio.rows import key_of

__all__ = ["InterfaceChange", "Interfaces", "ItemChange"]

#: Entries of a list up to which it is compared, entries of a change that are kept, and changes that are kept.
MAX_ITEMS, MAX_CHANGED, KEPT = 2000, 200, 20


class ItemChange(Payload, frozen=True, kw_only=True):
    """Added, removed or changed entry of a list. ``hunks`` has the difference between its JSON before and after."""

    kind: ItemKind
    name: str
    change: Literal["added", "removed", "changed"]
    hunks: tuple[Hunk, ...]


class InterfaceChange(Payload, frozen=True, kw_only=True):
    """Change of the lists of a server. ``time`` is in seconds since 1970; ``more`` counts entries that are left out."""

    server: str
    time: float
    items: tuple[ItemChange, ...]
    more: int


class Interfaces:
    """The lists of all servers as they were read last, and the last changes. The page is told about each change."""

    def __init__(self, events: PageEvents) -> None:
        self._events = events
        self._known: dict[tuple[str, ItemKind], dict[str, str]] = {}
        self.changes: deque[InterfaceChange] = deque(maxlen=KEPT)
        """The last changes, oldest first."""

    def note(self, server: str, lists: Mapping[ItemKind, Sequence[Any]]) -> None:
        """Compare the lists of a server with the lists before, and keep them."""
        found: list[ItemChange] = []
        for kind, items in lists.items():
            if len(items) > MAX_ITEMS:
                continue
            new = {printable(key_of(kind, item)): pretty(item) for item in items}
            old = self._known.get((server, kind))
            self._known[server, kind] = new
            if old is not None and old != new:
                found += changes_between(kind, old, new)
        if found:
            change = InterfaceChange(
                server=server, time=time.time(), items=tuple(found[:MAX_CHANGED]), more=max(0, len(found) - MAX_CHANGED)
            )
            self.changes.append(change)
            self._events.put(type="interface", name=server)


def lines_of(text: str | None) -> list[str]:
    """Return the lines of an entry, or none for an entry that is not in the list."""
    return [] if text is None else [printable(line, 500) for line in text.split("\n")]


def changes_between(kind: ItemKind, old: Mapping[str, str], new: Mapping[str, str]) -> list[ItemChange]:
    """Return the differences between two lists, by the names of their entries."""
    found = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before != after:
            change: Literal["added", "removed", "changed"] = (
                "added" if before is None else "removed" if after is None else "changed"
            )
            hunks = hunks_between(lines_of(before), lines_of(after))[0]
            found.append(ItemChange(kind=kind, name=name, change=change, hunks=hunks))
    return found
