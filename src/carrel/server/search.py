"""Search over all resources of a server, added to it before it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from carrel.context.index import ContextIndex
from carrel.context.provider import CONTEXT, ContextProvider
from carrel.errors import ConfigError
from carrel.search.engine import load
from carrel.search.options import SearchOptions
from carrel.search.provider import TOOL, SearchProvider

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider
    from carrel.search.embedder import Embed
    from carrel.search.indexer import Progress
    from carrel.server.endpoint import ServerEndpoint

__all__ = ["add_search"]


class Searchable(Protocol):
    """Server, as far as the search needs it."""

    name: str
    endpoint: ServerEndpoint

    @property
    def tools(self) -> Any:
        """Tools of the server."""


def add_search(
    app: Searchable,
    added: list[Provider],
    options: SearchOptions | None,
    key: str | None,
    progress: Callable[[Progress], object] | None,
    embed: Embed | None = None,
) -> ContextIndex:
    """Add the search to a server, and return its index.

    Raises:
        ConfigError: the server is running, a tool is called search or context already, or tantivy is not installed.
    """
    runtime = app.endpoint.runtime
    if runtime.is_running:
        raise ConfigError("add the search before the server starts")
    taken = [name for name in (TOOL, CONTEXT) if name in app.tools.entries]
    if taken or any(isinstance(each, SearchProvider) for each in added):
        raise ConfigError(f"There is a tool {taken[0] if taken else TOOL} already")
    load()
    options = options or SearchOptions()

    def shared() -> str:
        if key is not None:
            return key
        names = sorted(provider.name for provider in added)
        return msgspec.json.encode([app.name, names, options.contents, embed is not None]).decode()

    index = ContextIndex(runtime.catalog, options, key=shared, label=app.name, progress=progress, embed=embed)
    app.endpoint.gauges["index_complete"] = lambda: index.complete
    app.endpoint.gauges["index_updates"] = lambda: index.version
    added += SearchProvider(index, runtime.listeners), ContextProvider(index)
    return index
