"""Rows of the tree: servers, folders of URIs and resources, flattened as far as nodes are open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from carrel.host.resource_tree import ResourceTree, readable_path
from carrel.host.selection import Hosted
from carrel.printable import printable
from carrel.studio.api import TreeRow, Window
from carrel.studio.lists import Lists, ServerTree
from carrel.studio.rows import row_of, title_of

__all__ = ["tree_window"]

#: Longest list of opened nodes.
MAX_OPEN = 5000


class FlatNode(NamedTuple):
    """Node of the flattened tree. ``size`` and ``message`` are known for servers."""

    id: str
    level: int
    label: str
    server: str
    node: ResourceTree
    size: int | None = None
    message: str | None = None


async def tree_window(
    lists: Lists, messages: Mapping[str, str], opened: Collection[str], offset: int, limit: int, q: str, seq: int
) -> Window[TreeRow]:
    """Return a window of the tree in which the nodes with some ids are open.

    ``messages`` say why servers have no resources now.
    The ids of nodes are stable: they are made of the server's name and the path.
    """
    found, whole = await lists.trees(q), await lists.trees("")
    nodes: Sequence[FlatNode] = await lists.derived(
        ("flat", q, frozenset(opened)), lambda: list(_flattened(found, whole, frozenset(opened)))
    )
    rows = tuple(_row(node, messages) for node in nodes[offset : offset + limit])
    return Window(total=len(nodes), offset=offset, rows=rows, seq=seq)


def _flattened(found: Sequence[ServerTree], whole: Sequence[ServerTree], opened: frozenset[str]) -> Iterator[FlatNode]:
    roots = {each.server: _root(each.tree) for each in whole}
    for server, node, size, message in found:
        path = roots.get(server, ())
        for part in path:
            node = node.children.get(part, node)
        id = _id(server, path)
        yield FlatNode(id, 1, printable(server), server, node, size, message)
        if id in opened:
            yield from _below(node, server, path, 2, opened)


def _below(
    node: ResourceTree, server: str, path: tuple[str, ...], level: int, opened: frozenset[str]
) -> Iterator[FlatNode]:
    for parts, label, below in _sorted(node):
        id = _id(server, (*path, *parts))
        yield FlatNode(id, level, label, server, below)
        if below.children and id in opened:
            yield from _below(below, server, (*path, *parts), level + 1, opened)


def _sorted(node: ResourceTree) -> list[tuple[tuple[str, ...], str, ResourceTree]]:
    """Return the children of a node with their labels: folders first, each by their labels."""
    found = []
    for part, child in node.children.items():
        parts, below = child.merged(part)
        is_leaf = below is child and below.resource is not None and not below.children
        label = title_of(below.resource) if is_leaf else printable(readable_path(parts))
        found.append((parts, label, below))
    found.sort(key=lambda each: (not each[2].children, each[1].casefold()))
    return found


def _root(tree: ResourceTree) -> tuple[str, ...]:
    """Return the path of the lowest node that has all resources of a server in it, such as its folder."""
    path: tuple[str, ...] = ()
    while len(tree.children) == 1 and tree.resource is None:
        ((part, child),) = tree.children.items()
        if not child.children:
            break
        path, tree = (*path, part), child
    return path


def _id(server: str, path: tuple[str, ...]) -> str:
    return blake2b("\0".join((server, *path)).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _row(flat: FlatNode, messages: Mapping[str, str]) -> TreeRow:
    node = flat.node
    is_server = flat.level == 1
    resource = node.resource
    folder = bool(node.children) or node.is_directory
    return TreeRow(
        id=flat.id,
        level=flat.level,
        label=flat.label,
        kind="server" if is_server else "folder" if folder else "resource",
        server=flat.server,
        uri=None if resource is None else resource.uri,
        expandable=bool(node.children),
        row=None if resource is None else row_of("resource", Hosted(flat.server, resource)),
        count=flat.size if is_server else len(node.children) or None,
        message=messages.get(flat.server, flat.message) if is_server else None,
    )
