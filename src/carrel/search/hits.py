"""Hits with their snippets, read with the rights of the caller: a resource that cannot be read is not a hit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from carrel.awaitables import resolved
from carrel.catalog.catalog import Catalog
from carrel.errors import InvalidParams, MCPError, ResourceError, ResourceTooLarge
from carrel.log import Log
from carrel.search.results import SearchHit
from carrel.search.snippets import snippet_of
from carrel.sources.documents.query import text_uri
from carrel.wire.resources import TextResourceContents, decoded

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider, Request
    from carrel.search.manifest import IndexedResource
    from carrel.search.ranking import Ranked
    from carrel.search.store import IndexStore
    from carrel.search.terms import Word

__all__ = ["Hits"]

log = Log("carrel.search")

#: Seconds that reading a snippet may take; a hit is then without one.
PATIENCE = 2.0


class Reading(Protocol):
    """Interface of the index for reading hits."""

    catalog: Catalog
    label: str

    async def in_thread(self, request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a thread."""


class Unreadable(Exception):
    """The caller cannot read a resource."""


class Hits:
    """Makes hits of ranked resources."""

    def __init__(self, index: Reading) -> None:
        self._index = index

    async def read(
        self, store: IndexStore, ranked: Sequence[Ranked], words: Sequence[Word], limit: int, request: Request
    ) -> list[SearchHit]:
        """Return the first ``limit`` hits that the caller can read."""
        hits: list[SearchHit] = []
        at = 0
        while len(hits) < limit and at < len(ranked):
            part = ranked[at : at + limit - len(hits)]
            at += len(part)
            texts = await asyncio.gather(*(self._text(store, each, request) for each in part))
            found = [(each, text) for each, text in zip(part, texts, strict=True) if text is not None]
            hits += await self._index.in_thread(request, self._made, store, found, words)
        return hits

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
        except Unreadable:
            return None
        except MCPError as error:
            log.debug("%s has no snippet: %s", entry.uri, error)
            return None if isinstance(error, ResourceError) or request.view is not None else ""

    async def _read(self, store: IndexStore, each: Ranked, provider: Provider, request: Request) -> str:
        entry, passage = each.entry, each.passage
        first, last = (1, 1) if passage is None else (passage.first, passage.last)
        if store.writes and (passage is None or not entry.windows):
            restricted = request.view is not None or provider.guards
            if restricted and not await resolved(provider.shows(entry.uri, request.page(None, 1))):
                raise Unreadable
            if passage is None:
                return ""
            kept = await self._index.in_thread(request, store.manifest.text, entry.number)
            if kept is not None:
                return _lines(kept, first, last)
        if entry.windows and passage is not None:
            try:
                return await self._contents(_link(entry, first, last), request)
            except (InvalidParams, ResourceTooLarge):  # it has become shorter, or has very long lines
                pass
        try:
            return _lines(await self._contents(text_uri(entry.resource), request), first, last)
        except ResourceTooLarge:
            return ""

    async def _contents(self, uri: str, request: Request) -> str:
        result: Any = await resolved(self._index.catalog.read_resource(uri, request.page(None, 1)))
        contents = decoded(result).contents
        return "\n".join(each.text for each in contents if isinstance(each, TextResourceContents))


def _link(entry: IndexedResource, first: int, last: int) -> str:
    """Return the URI of some lines of a resource, or of the whole resource if its source has no windows."""
    text = text_uri(entry.resource)
    if text != entry.uri:  # a document, whose text has lines
        return f"{text}&lines={first}-{last}"
    return f"{text}?lines={first}-{last}" if entry.windows else text


def _lines(text: str, first: int, last: int) -> str:
    """Return some lines of a text."""
    return "\n".join(text.split("\n")[first - 1 : last])
