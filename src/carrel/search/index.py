"""SearchIndex: full-text index over the resources of a catalog, kept up to date in the background.

    index = app.add_search()
    async with memory.connect(app):
        await index.ready()
        results = await index.search("green tea", limit=5, mime_type="text/*")

Searches run in threads. Resources that the caller may not see are removed before ranking, and every snippet is read
with the rights of the caller. ``carrel.search.background`` keeps the index up to date.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Request
from carrel.log import Log
from carrel.search.background import BackgroundIndex
from carrel.search.embedder import Embed, Embedder, EmbeddingsEndpoint, EmbeddingsFunction
from carrel.search.engine import Damaged
from carrel.search.find import Filters, SearchQuery, find, named
from carrel.search.hits import Hits, HitsAndPassages, ReadableText, Wanted
from carrel.search.identifiers import identifiers_of
from carrel.search.indexer import Progress
from carrel.search.options import SearchOptions
from carrel.search.results import PassageResults, SearchResults
from carrel.search.store import IndexStore
from carrel.search.terms import words_of

if TYPE_CHECKING:
    from carrel.search.ranking import Ranked
    from carrel.search.reranker import Reranker

__all__ = ["MAX_LIMIT", "SearchIndex"]

log = Log("carrel.search")

T = TypeVar("T")

#: Most hits of a search.
MAX_LIMIT = 100


class SearchIndex(BackgroundIndex):
    """Full-text index over all resources of a catalog.

    ``embed`` returns vectors of texts, and replaces the endpoint of the options. The other arguments are as in
        ``BackgroundIndex``.

    Raises:
        ConfigError: the endpoint for embeddings has no URL, the folder of a model has none, or a package for
            embeddings is missing.
    """

    def __init__(
        self,
        catalog: Catalog,
        options: SearchOptions,
        *,
        key: Callable[[], str],
        label: str,
        progress: Callable[[Progress], object] | None = None,
        embed: Embed | None = None,
    ) -> None:
        embedder = _embedder(options, embed)
        super().__init__(catalog, options, key=key, label=label, progress=progress, embedder=embedder)
        self._hits = Hits(self, _reranker(options))

    def __repr__(self) -> str:
        return "SearchIndex()"

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        source: str | None = None,
        mime_type: str | None = None,
        path: str | None = None,
        request: Request | None = None,
    ) -> SearchResults:
        """Return the resources that match a query and that the caller of ``request`` may read, best first.

        ``source`` is the name of a provider or its last part, ``mime_type`` a pattern such as ``text/*``, and ``path``
        the beginning of a path or a URI.

        Raises:
            ConfigError: the server is not running.
            TypeError: the query is not a text, or the limit is not a number.
            ValueError: the limit is not between 1 and 100.
        """
        request = request or Request()
        filters = Filters(self, source, mime_type, path, request)
        answer = await self._answer(query, limit, filters, request, self._hits.read, _full)
        hits, nearest, absent = answer or ([], [], [])
        complete = answer is not None and self.complete
        return SearchResults(query=query, hits=hits, complete=complete, nearest=nearest, absent=absent)

    async def passages(
        self,
        query: str,
        *,
        limit: int = 10,
        source: str | None = None,
        mime_type: str | None = None,
        path: str | None = None,
        request: Request | None = None,
    ) -> PassageResults:
        """Return the passages that match a query and that the caller of ``request`` may read, best first.

        The arguments are as in ``search``.

        Raises:
            ConfigError: the server is not running.
            TypeError: the query is not a text, or the limit is not a number.
            ValueError: the limit is not between 1 and 100.
        """
        request = request or Request()
        filters = Filters(self, source, mime_type, path, request)
        answer = await self._answer(query, limit, filters, request, self._hits.passages, _full)
        found, nearest, absent = answer or ([], [], [])
        complete = answer is not None and self.complete
        return PassageResults(query=query, passages=found, complete=complete, nearest=nearest, absent=absent)

    async def hits_and_passages(
        self, query: str, *, wanted: Wanted, request: Request, **filters: str | None
    ) -> tuple[SearchResults, PassageResults]:
        """Return the results of ``search`` and ``passages``, which are searched, read and reranked once.

        There may be fewer passages if these fill the page. ``filters`` are the source, the MIME type and the path of
        ``search``, all of them.

        Raises:
            ConfigError: the server is not running.
            ValueError: a limit is not between 1 and 100.
        """

        async def read(
            store: IndexStore, ranked: Sequence[Ranked], query: str, most: int, request: Request
        ) -> HitsAndPassages:
            return await self._hits.both(store, ranked, query, wanted, request)

        def enough(page: HitsAndPassages, _: int) -> bool:
            return page.full and len(page.hits) == wanted.hits

        most = max(wanted.hits, wanted.passages)
        answer = await self._answer(query, most, Filters(self, request=request, **filters), request, read, enough)
        none = HitsAndPassages([], [], False)
        (hits, texts, _), (near_hits, near_texts, _), absent = answer or (none, none, [])
        complete = answer is not None and self.complete
        return (
            SearchResults(query=query, hits=hits, complete=complete, nearest=near_hits, absent=absent),
            PassageResults(query=query, passages=texts, complete=complete, nearest=near_texts, absent=absent),
        )

    async def text(self, uri: str, source: str | None = None, request: Request | None = None) -> ReadableText | None:
        """Return a resource with its whole text, or None if the caller of ``request`` may not or cannot read it.

        The resource need not be in the index. ``source`` is as in ``search``.
        """
        request, store = request or Request(), self._store
        if store is None:
            return None
        filters = Filters(self, source, None, None, request)
        try:
            return await self._hits.whole(store, uri, filters, request)
        except Damaged as error:
            await self._after_damage(error)
            return None

    async def _answer(
        self,
        query: str,
        limit: int,
        filters: Filters,
        request: Request,
        read: Callable[..., Awaitable[T]],
        enough: Callable[[T, int], bool],
    ) -> tuple[T, T, list[str]] | None:
        """Return what ``read`` makes of the passages of a query and of the nearest ones, and words that no text has.

        ``enough``: the answer does not need more passages. None without an index, or if it is damaged.
        """
        if not isinstance(query, str):
            raise TypeError(f"query must be a text, not {query!r}")
        if not isinstance(limit, int):
            raise TypeError(f"limit must be a number between 1 and {MAX_LIMIT}, not {limit!r}")
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit must be between 1 and {MAX_LIMIT}, not {limit}")
        self._pool.check()
        words, store = words_of(query), self._store
        if store is None:
            return None
        try:
            if not words:
                return await read(store, [], query, limit, request), await read(store, [], query, limit, request), []
            vector = None if self._embeddings is None else await self._embeddings.of_query(query)
            asked = SearchQuery(words, identifiers_of(query), vector)
            for first in (None,) if self._hits.reranks else (limit, None):
                found = await self.in_thread(request, find, store, asked, filters, limit, first)
                ranked = await self._hits.exact_first(store, found.ranked, asked.identifiers, request)
                answer = await read(store, ranked, query, limit, request)
                if not found.ranked.least or enough(answer, limit):  # else some cannot be read
                    break
            return answer, await read(store, found.nearest, query, limit, request), found.absent
        except Damaged as error:
            await self._after_damage(error)
            return None

    async def names(self, start: str, request: Request, limit: int = 20) -> list[str]:
        """Return completions of a query: names of resources that the caller may see."""
        words, store = words_of(start), self._store
        if store is None or not words:
            return []
        filters = Filters(self, None, None, None, request)
        try:
            return await self.in_thread(request, named, store, words, filters, limit)
        except Damaged as error:
            await self._after_damage(error)
            return []

    async def uris(self, request: Request) -> list[str]:
        """Return the URIs of all resources that the caller may see."""
        store = self._store
        if store is None:
            return []
        filters = Filters(self, None, None, None, request)
        try:
            return await self.in_thread(
                request, lambda: [each.uri for each in store.manifest.entries() if filters.accept(each)]
            )
        except Damaged as error:
            await self._after_damage(error)
            return []

    async def choices(self, what: str, request: Request) -> list[str]:
        """Return the values of a filter, "source" or "mime_type", that the caller may see something of."""
        store = self._store
        if store is None:
            return []
        filters = Filters(self, None, None, None, request)
        found: dict[str, None] = {}

        def collect() -> list[str]:
            if not filters.restricted and request.view is None:  # then there is no need to look at each
                here = [row for row in store.manifest.choices() if filters.has(row[0])]
                values = {filters.label(name) if what == "source" else kind for name, kind in here}
                return sorted(value for value in values if value)
            for entry in store.manifest.entries():
                value = filters.label(entry.provider) if what == "source" else entry.resource.mime_type
                if value and value not in found and filters.accept(entry):
                    found[value] = None
            return sorted(found)

        return await self.in_thread(request, collect)


def _full(found: Sequence[object], limit: int) -> bool:
    return len(found) >= limit


def _embedder(options: SearchOptions, embed: Embed | None) -> Embedder | None:
    if embed is not None:
        return EmbeddingsFunction(embed, options.embeddings_model or "")
    if options.embeddings is None:
        return None
    if options.local_embeddings is not None:
        from carrel.search.local_models import LocalEmbedder

        return LocalEmbedder(options.local_embeddings)
    return EmbeddingsEndpoint(options.embeddings, options.embeddings_model or "", options.embeddings_key)


def _reranker(options: SearchOptions) -> Reranker | None:
    if options.reranker is None:
        return None
    from carrel.search.reranker import Reranker

    return Reranker(options.reranker, options.reranked, options.rerank_seconds)
