"""Searches in the contents of all servers, and packed contexts, as the page shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from importlib.util import find_spec

from carrel.context.options import Ask
from carrel.context.pack import Packed
from carrel.context.results import ContextItem
from carrel.host.filters import ItemFilter
from carrel.host.host import Host
from carrel.host.selection import Hosted
from carrel.log import Log
from carrel.search.marks import marks_of
from carrel.search.results import SearchHit
from carrel.sources.documents.query import text_uri
from carrel.studio.api import ContentHit, LeftOutItem, Pack, PackItem, SearchResult
from carrel.studio.bodies import ContextRequest
from carrel.studio.live import Live
from carrel.studio.rows import row_of

__all__ = ["can_search", "pack", "search", "view_of"]

log = Log("carrel.studio")

#: Largest number of hits; more are looked for if the filter may leave some out.
MAX_HITS = 100
#: Seconds that a search waits for the index, which answers before it is complete then; and without any progress.
PATIENCE, IDLE = 5.0, 2.5


def can_search() -> bool:
    """Return whether an index can be made."""
    return find_spec("tantivy") is not None


async def search(host: Host, q: str, limit: int) -> SearchResult:
    """Search the contents of all servers by the words of a filter. Hits must match its other terms.

    Raises:
        ConfigError: tantivy is not installed.
    """
    written = ItemFilter(q)
    if not written.words.strip():
        return SearchResult(hits=(), complete=True)
    index = await host.index(wait=PATIENCE, idle=IDLE)
    fields = written.fields
    limit = max(1, min(limit, MAX_HITS))
    found = await index.search(written.words, limit=MAX_HITS if fields else limit)
    hits = [hit for hit in found.hits if fields.matches(hit.source, hit.resource)]
    return SearchResult(hits=tuple(_hit(hit, written.words) for hit in hits[:limit]), complete=found.complete)


def _hit(hit: SearchHit, words: str) -> ContentHit:
    snippet = hit.snippet or ""
    return ContentHit(
        row=row_of("resource", Hosted(hit.source, hit.resource)),
        score=hit.score,
        link=text_uri(hit.resource),
        line=hit.line,
        snippet=snippet,
        marks=tuple(marks_of(snippet, words)),
    )


async def pack(host: Host, live: Live, request: ContextRequest, seen: int, model: Ask | None = None) -> Packed:
    """Pack a context. ``seen`` is the number of changes up to the last one; after more, the index looks for changes.
    ``model`` helps to choose.

    Raises:
        ConfigError: tantivy is not installed.
        ValueError: the budget is less than 1.
    """
    index = await host.index(wait=PATIENCE, idle=IDLE)
    if live.changes.total() != seen:
        try:
            async with asyncio.timeout(IDLE):
                await index.look()
        except TimeoutError:
            log.info("a context is packed before all changes are indexed")
    return await index.context(
        request.question,
        model=model if request.question.strip() else None,
        budget=request.budget,
        pin=request.pin,
        open=request.open,
        without=request.without,
        format=request.format,
    )


def view_of(packed: Packed, *, changed: Collection[str], model_tokens: int) -> Pack:
    """Return a packed context as the page shows it. ``changed`` are the servers that have changed meanwhile."""
    result = packed.packed
    return Pack(
        question=result.question,
        budget=result.budget,
        tokens=result.tokens,
        tokenizer=result.tokenizer,
        items=tuple(_item(item, stale=item.server in changed) for item in result.items),
        left_out=tuple(LeftOutItem(uri=each.uri, reason=each.reason) for each in result.left_out),
        complete=result.complete,
        unread=result.unread,
        text=packed.text,
        model_tokens=model_tokens,
    )


def _item(item: ContextItem, *, stale: bool) -> PackItem:
    return PackItem(
        server=item.server,
        uri=item.uri,
        link=item.link,
        title=item.title,
        lines=item.lines,
        tokens=item.tokens,
        score=item.score,
        reason=item.reason,
        why=item.why,
        text=item.text,
        stale=stale,
    )
