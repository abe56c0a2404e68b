"""Servers with a search, for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from carrel import Server
from carrel.context.index import ContextIndex
from carrel.search.options import SearchOptions
from carrel.search.results import SearchResults
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer

TEMPLATE = "search://{+query}{?limit,source,mime_type}"


@asynccontextmanager
async def searching(
    app: Server, cache: Path, *, key: str | None = None, **options: object
) -> AsyncIterator[tuple[ContextIndex, MemoryPeer]]:
    """Run a server with a search, until everything is indexed."""
    index = app.add_search(SearchOptions(folder=str(cache), **options), key=key)
    async with memory.connect(app) as peer:
        await index.ready()
        yield index, peer


def names(results: SearchResults) -> list[str]:
    """Return the names of the resources that were found, best first."""
    return [hit.resource.name for hit in results.hits]


def write(folder: Path, **files: str) -> Path:
    """Write files, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder
