"""Routes of the lists: rows in windows, the tree, single entries, and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from carrel.host.filters import ItemFilter
from carrel.host.selection import Hosted, Order, check
from carrel.studio.api import Chip, Item, ItemKind, Key, ListWindow, Row
from carrel.studio.icons import icon_of
from carrel.studio.lists import ListQuery
from carrel.studio.problems import NotFound
from carrel.studio.routes.responses import number, reply, required, route, while_connected
from carrel.studio.rows import key_of, row_of
from carrel.studio.studio import Studio
from carrel.studio.tree import MAX_OPEN, TreeSelection, place_of, tree_window

__all__ = ["routes"]

#: Rows of a window, by default and at most.
ROWS, MAX_ROWS = 100, 1000


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def items(request: Request) -> ListWindow[Row]:
        query = read_query(request)
        seq = studio.events.seq
        if query.server is not None:
            studio.servers.find(query.server)
        found = await while_connected(request, studio.lists.find(query))
        limit = number(request, "limit", ROWS, MAX_ROWS)
        around = request.query_params.get("around")
        offset = number(request, "offset", 0, 2**53)
        if around is not None:
            offset = offset_around(found, query.kind, around, limit, offset)
        rows = tuple(row_of(query.kind, each) for each in found[offset : offset + limit])
        return ListWindow(total=len(found), offset=offset, rows=rows, seq=seq)

    async def tree(request: Request) -> Any:
        view = read_view(request)
        again = request.query_params.get("again")
        if again is not None:
            server, _, uri = again.partition(" ")
            studio.lists.directories.forget(server, uri)
        offset, limit = number(request, "offset", 0, 2**53), number(request, "limit", ROWS, MAX_ROWS)
        window = tree_window(studio.lists, studio.servers.messages, view, offset, limit, studio.events.seq)
        return await while_connected(request, window)

    async def place(request: Request) -> Any:
        view, server, uri = read_view(request), required(request, "server"), required(request, "uri")
        studio.servers.find(server)
        return await reply(studio.operations, "read", lambda: place_of(studio.lists, view, server, uri))

    async def item(request: Request) -> Item:
        kind, server, name = read_kind(request), required(request, "server"), required(request, "name")
        studio.servers.find(server)
        found = await studio.lists.item(kind, server, name)
        if found is None:
            raise NotFound(f"The server has no such {kind}")
        icon = icon_of(getattr(found, "icons", None))
        return Item(key=Key(server=server, uri=name), kind=kind, icon=icon, item=msgspec.to_builtins(found))

    async def filter(request: Request) -> Any:
        return {
            "chips": [
                Chip(**msgspec.structs.asdict(term)) for term in ItemFilter(request.query_params.get("q", "")).terms
            ]
        }

    return [
        route("GET", "/items", items),
        route("GET", "/item", item),
        route("GET", "/tree", tree),
        route("GET", "/tree/place", place),
        route("GET", "/filter", filter),
    ]


def read_view(request: Request) -> TreeSelection:
    """Return the open nodes and the filter of the tree.

    Raises:
        ValueError: too many nodes are open.
    """
    opened = request.query_params.getlist("open")
    if len(opened) > MAX_OPEN:
        raise ValueError(f"At most {MAX_OPEN} nodes can be open")
    return TreeSelection(frozenset(opened), request.query_params.get("q", ""))


def read_kind(request: Request) -> ItemKind:
    """Return the kind of the entries.

    Raises:
        ValueError: there is no such kind.
    """
    kind: Any = request.query_params.get("kind", "resource")
    if kind not in get_args(ItemKind):
        raise ValueError("The parameter kind is resource, template, tool, prompt or skill")
    found: ItemKind = kind
    return found


def read_query(request: Request) -> ListQuery:
    """Return the query of a list.

    Raises:
        ValueError, ConfigError: a parameter is not valid.
    """
    sort: Any = request.query_params.get("sort") or None
    if sort is not None:
        check({"sort": sort})
    order: Order | None = sort
    server = request.query_params.get("server") or None
    return ListQuery(read_kind(request), request.query_params.get("q", ""), order, server)


def offset_around(found: Sequence[Hosted[Any]], kind: ItemKind, around: str, limit: int, offset: int) -> int:
    """Return the offset of a window that has an entry in its middle: ``around`` is its server and its URI."""
    server, _, uri = around.partition(" ")
    for at, each in enumerate(found):
        if each.server == server and key_of(kind, each.item) == uri:
            return max(0, min(at - limit // 2, len(found) - limit))
    return min(offset, max(0, len(found) - limit))
