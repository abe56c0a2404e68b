"""Query of the index: filters by the caller's rights and options before it ranks the matches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Request
from carrel.search.engine import Match
from carrel.search.identifiers import Identifier
from carrel.search.manifest import IndexedResource
from carrel.search.ranking import Matches, Ranked, Ranking, best_of_each, rank
from carrel.search.store import IndexStore
from carrel.search.terms import Word
from carrel.uri.parse import percent_encode

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Filters", "FoundPassages", "SearchQuery", "find", "named"]

#: Passages, and resources by their text and names, that are ranked, for each one that is wanted, and at least.
RANKED_PER_HIT, RANKED = 8, 300
#: Resources by their text, of which all passages are ranked, and most of these passages.
WHOLE, OF_WHOLE = 20, 400
#: Maximum number of passages with all words of an identifier.
NAMED = 30
#: Share of the words of a query, by their weight, that may be absent from the whole index; else nothing is relevant: in
#: an index of one document, how much less it is for ten times as many documents, and at least.
ABSENT, ABSENT_STEP, LEAST_ABSENT = 1.4, 0.25, 0.35
#: Passages that are returned as the nearest if nothing is relevant.
NEAREST = 3
#: Documents of the index that are looked at for one list, of which the caller may see few.
MAX_LOOKED_AT = 500_000


class Offered(Protocol):
    """Interface of the index for filters."""

    catalog: Catalog
    label: str


class Filters:
    """Rights of a caller, and the filters of the query."""

    def __init__(
        self, index: Offered, source: str | None, mime_type: str | None, path: str | None, request: Request
    ) -> None:
        self._label = index.label
        self._visible = request.visible
        self._allows = request.allows
        self._narrow = bool(self.restricted or request.view is not None or mime_type is not None or path)
        self._mime_type = None if mime_type is None else mime_type.lower()
        offered = {provider.name: provider for provider in index.catalog.providers}
        self._sources = {name for name in offered if source is None or self._is(name, source)}
        self._starts: dict[str, tuple[str, ...]] | None = None
        if path:
            encoded = percent_encode(path, _IN_PATH).lstrip("/")
            self._starts = {
                name: (path, *(f"{prefix.rstrip('/')}/{encoded}" for prefix in provider.prefixes))
                for name, provider in offered.items()
            }

    def accept_all(self, store: IndexStore) -> bool:
        """Return whether the filters accept all resources of an index, which are then not looked at one by one."""
        return not self._narrow and self._sources.issuperset(store.manifest.providers())

    @property
    def restricted(self) -> bool:
        """Whether some resources may be hidden from the caller."""
        return self._visible is not None

    def has(self, provider: str) -> bool:
        """Return whether the query includes a provider, and the provider is present."""
        return provider in self._sources

    def label(self, provider: str) -> str:
        """Return the name of a source, as callers see it."""
        return provider or self._label

    def _is(self, name: str, source: str) -> bool:
        label = self.label(name).rstrip("/")
        return source.rstrip("/") in (label, label.rpartition("/")[2], label.partition(":")[0])

    def accept(self, entry: IndexedResource) -> bool:
        """Return whether the caller may see a resource, and the options of the query include it."""
        if not self.has(entry.provider):
            return False
        if self._visible is not None and not self._visible(entry.uri):
            return False
        if not self._allows("list", entry.uri):
            return False
        if self._mime_type is not None:
            kind = (entry.resource.mime_type or "").lower()
            if not fnmatchcase(kind.partition(";")[0], self._mime_type):
                return False
        return self._starts is None or entry.uri.startswith(self._starts.get(entry.provider, ("\0",)))


_IN_PATH = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"


class Accepted:
    """Resources that filters accept, each looked up once for a query."""

    def __init__(self, store: IndexStore, filters: Filters) -> None:
        self._store = store
        self._filters = filters
        self._looked_at: set[int] = set()
        self._all = filters.accept_all(store)
        self._entries: dict[int, IndexedResource] = {}

    def of(self, ask: Callable[[int, int], list[Match]], wanted: int) -> list[Match]:
        """Return the first matches of accepted resources, as many as are wanted.

        ``ask`` returns matches, given how many and after how many.
        """
        if self._all:
            return ask(wanted, 0)
        found: list[Match] = []
        offset, size = 0, wanted * (2 if self._filters.restricted else 1)
        while len(found) < wanted and offset < MAX_LOOKED_AT:
            part = ask(size, offset)
            entries = self.look_up(match.number for match in part)
            found += [match for match in part if match.number in entries]
            if len(part) < size:
                break
            offset, size = offset + size, size * 4
        return found[:wanted]

    def look_up(self, numbers: Iterable[int]) -> Mapping[int, IndexedResource]:
        """Return at least the accepted resources among some, by their numbers."""
        fresh = [number for number in dict.fromkeys(numbers) if number not in self._looked_at]
        self._looked_at.update(fresh)
        accept = self._filters.accept
        for number, entry in self._store.entries(fresh).items():
            if accept(entry):
                self._entries[number] = entry
        return self._entries


class FoundPassages(NamedTuple):
    """Passages for a query, best first: all, or the first ones.

    If nothing is relevant, ``ranked`` has only resources whose names have all words, ``nearest`` has the nearest
    passages, and ``absent`` the words that no text has.
    """

    ranked: Ranking
    nearest: list[Ranked]
    absent: list[str]


class SearchQuery(NamedTuple):
    """Query: its words, its identifiers, and its embedding, None without embeddings."""

    words: list[Word]
    identifiers: Sequence[Identifier]
    vector: Any = None


def find(
    store: IndexStore, query: SearchQuery, filters: Filters, limit: int, first: int | None = None
) -> FoundPassages:
    """Return the passages that match a query, more than ``limit`` if there are.

    With ``first``, the passages of at least so many resources, if they are relevant and no resources are hidden.

    Raises:
        Damaged: the index cannot be read.
    """
    if not store.writes:
        store.refresh()
    engine, accepted = store.engine, Accepted(store, filters)
    even = filters.restricted
    words, vector = query.words, query.vector
    wanted = max(RANKED, RANKED_PER_HIT * limit)
    passages = accepted.of(lambda size, offset: engine.passages(words, size, offset, even=even), wanted)
    whole = accepted.of(lambda size, offset: engine.resources(words, size, offset, even=even), wanted)
    numbers = [match.number for match in whole[:WHOLE]]
    while numbers:
        more = engine.passages(words, OF_WHOLE, even=even, resources=numbers)
        passages += more
        seen = {match.number for match in more}  # if they have taken all places, again without them
        numbers = [number for number in numbers if number not in seen] if len(more) == OF_WHOLE else []
    named: list[Match] = []
    for each in query.identifiers:
        named += accepted.of(partial(engine.passages, words, even=even, required=each.words), NAMED)
    names = accepted.of(lambda size, offset: engine.names(words, size, offset, even=even), wanted)
    misspelled = accepted.of(lambda size, offset: engine.names(words, size, offset, misspelled=True, even=even), RANKED)
    meant: list[Match] = []
    if vector is not None and store.vectors is not None:
        meant = accepted.of(store.vectors.nearest(vector), wanted)
    # An embedding may be near without the words. Absent words would tell a caller about hidden resources.
    share, absent = (0.0, []) if meant or even else engine.absent(words)
    relevant = share <= max(LEAST_ABSENT, ABSENT - ABSENT_STEP * math.log10(max(engine.documents, 1)))
    matches = Matches([*passages, *named], whole, names, misspelled, meant, named)
    ranked = rank(accepted.look_up, matches, words, by_rank=even, first=first if relevant and not even else None)
    if relevant:
        return FoundPassages(ranked, [], [])
    by_name = {match.number for match in misspelled}
    nearest = [each for each in ranked.passages if each.passage is not None]
    only_names = best_of_each(each for each in ranked.passages if each.entry.number in by_name)
    return FoundPassages(
        Ranking([each._replace(passage=None) for each in only_names]),
        [] if by_name else nearest[:NEAREST],
        [] if by_name else absent,
    )


def named(store: IndexStore, words: list[Word], filters: Filters, limit: int) -> list[str]:
    """Return the names of the resources whose names have some words, or beginnings or misspellings of them.

    Raises:
        Damaged: the index cannot be read.
    """
    accepted = Accepted(store, filters)
    engine, even = store.engine, filters.restricted
    exact = accepted.of(lambda size, offset: engine.names(words, size, offset, even=even), limit)
    alike = accepted.of(lambda size, offset: engine.names(words, size, offset, misspelled=True, even=even), limit)
    numbers = dict.fromkeys(match.number for match in (*exact, *alike))
    entries = accepted.look_up(numbers)
    found = [entries[number].resource for number in numbers if number in entries]
    return list(dict.fromkeys(resource.title or resource.name for resource in found))[:limit]
