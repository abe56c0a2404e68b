"""Rows of the tree: servers, folders of URIs and resources, flattened as far as nodes are open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from carrel.host.resource_tree import ResourceTree
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
    lists: Lists, opened: Collection[str], offset: int, limit: int, q: str, seq: int
) -> Window[TreeRow]:
    """Return a window of the tree in which the nodes with some ids are open.

    The ids of nodes are stable: they are made of the server's name and the path.
    """
    trees = await lists.trees(q)
    nodes: Sequence[FlatNode] = await lists.derived(
        ("flat", q, frozenset(opened)), lambda: list(_flattened(trees, frozenset(opened)))
    )
    rows = tuple(_row(node) for node in nodes[offset : offset + limit])
    return Window(total=len(nodes), offset=offset, rows=rows, seq=seq)


def _flattened(trees: Sequence[ServerTree], opened: frozenset[str]) -> Iterator[FlatNode]:
    for server, tree, size, message in trees:
        root = _root(tree)
        id = _id(server)
        yield FlatNode(id, 1, printable(server), server, root, size, message)
        if id in opened:
            yield from _below(root, server, id, 2, opened)


def _below(node: ResourceTree, server: str, parent: str, level: int, opened: frozenset[str]) -> Iterator[FlatNode]:
    for part, child in node.children.items():
        id = _id(parent, part)
        label, below = child.merged(part)
        if below.resource is not None and not below.children:
            label = title_of(below.resource) if below is child else label
        yield FlatNode(id, level, printable(label), server, below)
        if below.children and id in opened:
            yield from _below(below, server, id, level + 1, opened)


def _root(tree: ResourceTree) -> ResourceTree:
    """Return the lowest node that has all resources of a server in it: the node of its folder, for example."""
    while len(tree.children) == 1 and tree.resource is None:
        (child,) = tree.children.values()
        if not child.children:
            break
        tree = child
    return tree


def _id(*path: str) -> str:
    return blake2b("\0".join(path).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _row(flat: FlatNode) -> TreeRow:
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
        message=flat.message,
    )
