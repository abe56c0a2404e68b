"""Visibility of tools, prompts and resources: ``when`` for each caller, and entries that are disabled for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from carrel.awaitables import resolved
from carrel.log import Log
from carrel.server.context import Context

if TYPE_CHECKING:
    from carrel.catalog.ordered_list import OrderedList
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.options import When
    from carrel.server.runtime import Runtime

__all__ = ["Switches", "hidden", "is_permitted"]

log = Log("carrel")


class RegistryEntry(Protocol):
    """Entry of a registry of tools, prompts or resources."""

    tags: frozenset[str]
    when: When | None


E = TypeVar("E", bound=RegistryEntry)


async def is_permitted(name: str, when: When | None, context: Context[Any]) -> bool:
    """Return whether an entry exists for the caller of a request. One whose ``when`` fails does not."""
    if when is None:
        return True
    try:
        answer = when(context)
        return bool(await resolved(answer))
    except Exception as error:
        log.error("when of %s failed, so it is hidden: %s", name, error, exc_info=error)
        return False


async def hidden(listing: OrderedList[E], runtime: Runtime, call: Call, channel: Channel) -> frozenset[str]:
    """Return the keys of the entries that do not exist for the caller of a request."""
    context: Context[Any] = Context(runtime, call, channel)
    guarded = [(key, entry.when) for key, entry in listing.entries.copy().items() if entry.when is not None]
    return frozenset([key for key, when in guarded if not await is_permitted(key, when, context)])


class Switches(Generic[E]):
    """Disabled entries of a listing, by name or tag; ``changed`` is called with entries that appear or disappear."""

    def __init__(self, listing: OrderedList[E], changed: Callable[[Iterable[str]], None]) -> None:
        self._listing = listing
        self._changed = changed
        self._names: set[str] = set()
        self._tags: set[str] = set()
        self.off: dict[str, E] = {}
        """Disabled entries, by key."""

    def disable(self, names: Collection[str], tags: Iterable[str]) -> None:
        """Disable entries by name and by tag, including later additions.

        Raises:
            KeyError: no such name.
        """
        for name in names:
            if name not in self._listing and name not in self.off:
                raise KeyError(name)
        self._names.update(names)
        self._tags.update(tags)
        self._refresh()

    def enable(self, names: Collection[str], tags: Iterable[str]) -> None:
        """Enable entries again. Entries that another name or tag disables stay disabled.

        Raises:
            KeyError: no such name.
        """
        for name in names:
            if name not in self._listing and name not in self.off:
                raise KeyError(name)
        self._names.difference_update(names)
        self._tags.difference_update(tags)
        self._refresh()

    def put(self, name: str, entry: E) -> None:
        """Add an entry that is new, or replaces another one."""
        if name in self._names or not self._tags.isdisjoint(entry.tags):
            if name in self._listing:
                self._listing.remove(name)
            self.off[name] = entry
            self._listing.changes += 1  # something was registered
        else:
            self.off.pop(name, None)
            self._listing.put(name, entry)

    def remove(self, name: str) -> None:
        """Remove an entry that may be disabled.

        Raises:
            KeyError: no such name.
        """
        self._names.discard(name)
        if self.off.pop(name, None) is None:
            self._listing.remove(name)

    def _refresh(self) -> None:
        before = set(self._listing.entries)
        for name, entry in (self._listing.entries | self.off).items():
            if (name in self._names or not self._tags.isdisjoint(entry.tags)) == (name in before):
                self.put(name, entry)
        changed = before ^ set(self._listing.entries)
        if changed:
            self._changed(sorted(changed))
