"""Hits with their snippets, read with the rights of the caller: a resource that cannot be read is not a hit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from carrel.awaitables import resolved
from carrel.catalog.catalog import Catalog
from carrel.errors import InvalidParams, MCPError, ResourceError, ResourceTooLarge
from carrel.log import Log
from carrel.search.engine import Match
from carrel.search.manifest import number_of
from carrel.search.passages import passages_of
from carrel.search.ranking import best_of_each
from carrel.search.results import SearchHit, SearchPassage
from carrel.search.snippets import snippet_of
from carrel.search.terms import words_of
from carrel.sources.documents.query import text_uri
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.resources import Resource, TextResourceContents, decoded

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider, Request
    from carrel.search.find import Filters
    from carrel.search.identifiers import Identifier
    from carrel.search.manifest import IndexedResource
    from carrel.search.ranking import Ranked, Ranking
    from carrel.search.reranker import Reranker
    from carrel.search.store import IndexStore
    from carrel.search.terms import Word

__all__ = ["Hits", "HitsAndPassages", "ReadableText", "Wanted", "least_tokens"]

log = Log("carrel.search")

#: Seconds that reading a snippet may take; a hit is then without one.
PATIENCE = 2.0
#: Tokens of a passage, for the number of passages that are read together to fill a budget.
PASSAGE_TOKENS = 300
#: Lines between the first and the last passage of a resource that are read together.
MAX_SPAN = 5000
#: Bonus of a passage that has all identifiers of a query exactly, as a share of the best score.
EXACT = 0.2
#: Maximum number of passages that are read to find identifiers, and number of matches of a common identifier.
MAX_NAMED, COMMON = 30, 4


class Reading(Protocol):
    """Interface of the index for reading hits."""

    catalog: Catalog
    label: str

    async def in_thread(self, request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a thread."""


class Wanted(NamedTuple):
    """Number of hits, and of passages at most: no more than fill a page of ``tokens`` are needed."""

    hits: int
    passages: int
    tokens: int


class HitsAndPassages(NamedTuple):
    """Hits and passages, and whether the passages are as many as are needed."""

    hits: list[SearchHit]
    passages: list[SearchPassage]
    full: bool


class UnreadableResource(Exception):
    """The caller cannot read a resource."""


class ReadableText(NamedTuple):
    """Resource that the caller can read, with the name of its source and its whole text."""

    resource: Resource
    source: str
    text: str


class Hits:
    """Makes hits of ranked resources."""

    def __init__(self, index: Reading, reranker: Reranker | None = None) -> None:
        self._index = index
        self._reranker = reranker

    @property
    def reranks(self) -> bool:
        """Whether a model ranks the first passages again."""
        return self._reranker is not None

    async def read(
        self, store: IndexStore, ranked: Sequence[Ranked], query: str, limit: int, request: Request
    ) -> list[SearchHit]:
        """Return the first ``limit`` hits that the caller can read: resources with the best passage of each."""
        found = await self._first(store, best_of_each(ranked), query, limit, request)
        hits: list[SearchHit] = await self._index.in_thread(request, self._made, store, found, words_of(query))
        return hits

    async def passages(
        self, store: IndexStore, ranked: Sequence[Ranked], query: str, limit: int, request: Request
    ) -> list[SearchPassage]:
        """Return the first ``limit`` passages that the caller can read, with their texts."""
        found = await self._first(store, ranked, query, limit, request)
        return [self._passage(each, text) for each, text in found]

    async def exact_first(
        self, store: IndexStore, ranking: Ranking, identifiers: Sequence[Identifier], request: Request
    ) -> list[Ranked]:
        """Return the passages with a bonus for passages that have identifiers exactly, best first.

        The first passages that have all words of an identifier according to the index are read. An identifier that
        ``COMMON`` or more of them have exactly gives no bonus.
        """
        ranked, least = ranking
        named = [each for each in ranked if each.named][:MAX_NAMED]
        read = await self._readable(store, named, len(named), request) if named else []
        exact = [[each for each, text in read if identifier.is_in(text)] for identifier in identifiers]
        shares = Counter(_place(each) for found in exact if len(found) < COMMON for each in found)
        if shares:
            bonus, least = EXACT / len(identifiers), least / (1 + EXACT)
            made = [each._replace(score=(each.score + bonus * shares[_place(each)]) / (1 + EXACT)) for each in ranked]
            ranked = sorted(made, key=lambda each: -each.score)
        return [each for each in ranked if each.score >= least]

    async def both(
        self, store: IndexStore, ranked: Sequence[Ranked], query: str, wanted: Wanted, request: Request
    ) -> HitsAndPassages:
        """Return the first hits and the first passages, read and reranked once: the hits are of the passages first."""
        if not ranked:
            return HitsAndPassages([], [], False)
        found, full = await self._filling(store, ranked, query, wanted, request)
        best: dict[int, tuple[Ranked, str]] = {}
        for each, text in found:
            best.setdefault(each.entry.number, (each, text))
        if len(best) < wanted.hits:
            others = [each for each in best_of_each(ranked) if each.entry.number not in best]
            for each, text in await self._readable(store, others, wanted.hits - len(best), request):
                best[each.entry.number] = each, text
        first = list(best.values())[: wanted.hits]
        made: list[SearchHit] = await self._index.in_thread(request, self._made, store, first, words_of(query))
        return HitsAndPassages(made, [self._passage(each, text) for each, text in found[: wanted.passages]], full)

    async def _filling(
        self, store: IndexStore, ranked: Sequence[Ranked], query: str, wanted: Wanted, request: Request
    ) -> tuple[list[tuple[Ranked, str]], bool]:
        """Return the first passages that the caller can read, with their texts, until they fill the page.

        And whether they are as many as are needed. The first read has also the first resources, as many as there are
        hits.
        """
        most = max(wanted.hits, wanted.passages)
        if self._reranker is not None:
            return await self._first(store, ranked, query, most, request), True
        found: list[tuple[Ranked, str]] = []
        at, size, room = 0, _places_of(ranked, wanted.hits), wanted.tokens
        while room >= 0 and at < len(ranked) and len(found) < most:
            part = ranked[at : at + min(max(size, room // PASSAGE_TOKENS + 1), most - len(found))]
            at, size = at + len(part), 0
            read = await self._readable(store, part, len(part), request)
            room -= least_tokens(text for _, text in read)
            found += read
        return found, room < 0 or len(found) == most

    async def _first(
        self, store: IndexStore, ranked: Sequence[Ranked], query: str, limit: int, request: Request
    ) -> list[tuple[Ranked, str]]:
        """Return the first ``limit`` that the caller can read, with the texts of their passages, after reranking."""
        if self._reranker is None or not ranked:
            return await self._readable(store, ranked, limit, request)
        found = await self._readable(store, ranked, max(limit, self._reranker.most), request)
        return (await self._reranker.rerank(query, found))[:limit]

    async def whole(self, store: IndexStore, uri: str, filters: Filters, request: Request) -> ReadableText | None:
        """Return a resource with its whole text, or None if the caller cannot read it. It may be absent in the index.

        Raises:
            Damaged: the index cannot be read.
        """
        if (request.visible is not None and not request.visible(uri)) or not request.allows("read", uri):
            return None
        catalog = self._index.catalog
        numbers = [number_of(each.name, uri) for each in catalog.providers if filters.has(each.name)]
        entries = await self._index.in_thread(request, store.entries, numbers)
        entry = next((entries[number] for number in numbers if number in entries), None)
        provider = catalog.routes.find(uri, request) if entry is None else catalog.get(entry.provider)
        try:
            async with asyncio.timeout(PATIENCE):
                if entry is None or provider is None:
                    name = uri.rstrip("/").rpartition("/")[2] or uri
                    label = filters.label("" if provider is None else provider.name)
                    return ReadableText(Resource(uri, name), label, await self._contents(uri, provider, request))
                text = await self._kept(store, entry, provider, request)
                if text is None:
                    text = await self._contents(text_uri(entry.resource), provider, request)
                return ReadableText(entry.resource, filters.label(entry.provider), text)
        except (TimeoutError, UnreadableResource, MCPError) as error:
            log.debug("%s cannot be read: %s", uri, error)
            return None

    async def _kept(
        self, store: IndexStore, entry: IndexedResource, provider: Provider, request: Request
    ) -> str | None:
        """Return the text that the index has of a resource that the caller may read.

        Raises:
            UnreadableResource: the caller may not read it.
        """
        if not store.writes or entry.windows:
            return None
        await self._check(entry, provider, request)
        kept: str | None = await self._index.in_thread(request, store.manifest.text, entry.number)
        return kept

    async def _readable(
        self, store: IndexStore, ranked: Sequence[Ranked], limit: int, request: Request
    ) -> list[tuple[Ranked, str]]:
        """Return the first ``limit`` of ranked resources that the caller can read, with the texts of their passages."""
        found: list[tuple[Ranked, str]] = []
        at = 0
        while len(found) < limit and at < len(ranked):
            part = ranked[at : at + limit - len(found)]
            at += len(part)
            of_each: dict[int, list[Ranked]] = {}
            for each in part:
                of_each.setdefault(each.entry.number, []).append(each)
            texts: dict[tuple[int, Match | None], str | None] = {}
            for read in await asyncio.gather(*(self._texts(store, some, request) for some in of_each.values())):
                texts.update(read)
            for each in part:
                text = texts[each.entry.number, each.passage]
                if text is not None:
                    found.append((each, text))
        return found

    async def _texts(
        self, store: IndexStore, passages: Sequence[Ranked], request: Request
    ) -> dict[tuple[int, Match | None], str | None]:
        """Return the texts of passages of one resource, as ``_text`` does, with one read of all lines between them."""
        matches = [each.passage for each in passages if each.passage is not None]
        if len(matches) > 1:
            first, last = min(each.first for each in matches), max(each.last for each in matches)
            if last - first < MAX_SPAN:
                whole = await self._text(store, passages[0]._replace(passage=Match(0, first, last, 0.0)), request)
                if whole is None:
                    return {(each.entry.number, each.passage): None for each in passages}
                if whole:
                    return {
                        (passages[0].entry.number, each): _lines(whole, each.first - first + 1, each.last - first + 1)
                        for each in matches
                    }
        return {(each.entry.number, each.passage): await self._text(store, each, request) for each in passages}

    def _passage(self, each: Ranked, text: str) -> SearchPassage:
        entry, match = each.entry, each.passage
        passage = SearchPassage(
            resource=entry.resource,
            source=entry.provider or self._index.label,
            link=entry.uri if match is None else _link(entry, match.first, match.last),
            score=round(each.score, 4),
        )
        if match is not None and text:
            passage.first_line, passage.last_line, passage.text = match.first, match.last, text
            first = next(passages_of(text, entry.resource.mime_type), None)
            passage.heading = "" if first is None else first.heading
        return passage

    def _made(self, store: IndexStore, found: Sequence[tuple[Ranked, str]], words: Sequence[Word]) -> list[SearchHit]:
        hits = []
        terms = cache(store.engine.terms)  # of the words, which are the same for each
        for each, text in found:
            entry, passage = each.entry, each.passage
            hit = SearchHit(
                resource=entry.resource,
                score=round(each.score, 4),
                source=entry.provider or self._index.label,
                link=entry.uri if passage is None else _link(entry, passage.first, passage.last),
            )
            if passage is not None:
                snippet = snippet_of(text, passage.first, words, terms)
                hit.first_line, hit.last_line = passage.first, passage.last
                if snippet is not None:
                    hit.snippet, hit.line = snippet
            hits.append(hit)
        return hits

    async def _text(self, store: IndexStore, each: Ranked, request: Request) -> str | None:
        """Return the text of a resource's passage ("" without a passage), or None if the caller cannot read the
        resource.
        """
        entry = each.entry
        provider = self._index.catalog.get(entry.provider)
        if provider is None or not request.allows("read", entry.uri):
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._read(store, each, provider, request)
        except TimeoutError:
            log.debug("%s takes too long for a snippet", entry.uri)
            # Without access rules, every listed resource may be read.
            return "" if request.view is None and not provider.guards and store.writes else None
        except UnreadableResource:
            return None
        except MCPError as error:
            log.debug("%s has no snippet: %s", entry.uri, error)
            return None if isinstance(error, ResourceError) or request.view is not None else ""

    async def _read(self, store: IndexStore, each: Ranked, provider: Provider, request: Request) -> str:
        entry, passage = each.entry, each.passage
        first, last = (1, 1) if passage is None else (passage.first, passage.last)
        if store.writes and (passage is None or not entry.windows):
            await self._check(entry, provider, request)
            if passage is None:
                return ""
            kept = await self._index.in_thread(request, store.manifest.text, entry.number)
            if kept is not None:
                return _lines(kept, first, last)
        if entry.windows and passage is not None:
            try:
                return await self._contents(_link(entry, first, last), provider, request)
            except (InvalidParams, ResourceTooLarge):  # it has become shorter, or has very long lines
                pass
        try:
            return _lines(await self._contents(text_uri(entry.resource), provider, request), first, last)
        except ResourceTooLarge:
            return ""

    async def _check(self, entry: IndexedResource, provider: Provider, request: Request) -> None:
        """Check that a resource is no link to a resource that is hidden from the caller.

        Raises:
            UnreadableResource: it is one.
        """
        restricted = request.view is not None or provider.guards
        if restricted and not await resolved(provider.shows(entry.uri, request.page(None, 1))):
            raise UnreadableResource

    async def _contents(self, uri: str, provider: Provider | None, request: Request) -> str:
        """Return the text of a resource of a provider, although another provider may have the same URI."""
        catalog, request = self._index.catalog, request.page(None, 1)
        reader: Provider = catalog
        if provider is not None and catalog.routes.find(uri, request) is not provider:
            reader = provider
        result: Any = await resolved(reader.read_resource(uri, request))
        contents = decoded(result).contents
        return "\n".join(each.text for each in contents if isinstance(each, TextResourceContents))


def least_tokens(texts: Iterable[str]) -> int:
    """Return how many tokens, by estimate, passages with these texts take at least on a page.

    The page has more tokens than the text of a passage, which it shows without the line feeds around it.
    """
    return sum(estimate_tokens(text.strip("\n")) for text in texts)


def _places_of(ranked: Sequence[Ranked], resources: int) -> int:
    """Return how many of the first passages belong to so many resources."""
    seen: set[int] = set()
    for at, each in enumerate(ranked):
        seen.add(each.entry.number)
        if len(seen) >= resources:
            return at + 1
    return len(ranked)


def _place(each: Ranked) -> tuple[int, int]:
    """Return the number of the resource and the first line of a passage."""
    return each.entry.number, 0 if each.passage is None else each.passage.first


def _link(entry: IndexedResource, first: int, last: int) -> str:
    """Return the URI of some lines of a resource, or of the whole resource if its source has no windows."""
    text = text_uri(entry.resource)
    if text != entry.uri:  # a document, whose text has lines
        return f"{text}&lines={first}-{last}"
    return f"{text}?lines={first}-{last}" if entry.windows else text


def _lines(text: str, first: int, last: int) -> str:
    """Return some lines of a text."""
    return "\n".join(text.split("\n")[first - 1 : last])
