"""Rows of the tree: servers, folders of URIs, directories and resources, flattened as far as nodes are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from carrel.host.resource_tree import ResourceTree, readable_path, segments
from carrel.host.selection import Hosted
from carrel.printable import printable
from carrel.studio.api import ListWindow, Place, TreeRow
from carrel.studio.directories import PATIENCE, Directories, Directory
from carrel.studio.lists import READING, Lists, ServerTree
from carrel.studio.rows import row_of, title_of

__all__ = ["MAX_OPEN", "TreeSelection", "place_of", "tree_window"]

#: Longest list of opened nodes, and levels of directories that one request reads.
MAX_OPEN, MAX_LEVELS = 5000, 32


class TreeSelection(NamedTuple):
    """Visible part of the tree: the ids of its open nodes, and the filter."""

    opened: frozenset[str]
    q: str


class FlatNode(NamedTuple):
    """Node of the flattened tree. ``size`` and ``message`` are known for servers."""

    id: str
    level: int
    label: str
    server: str
    node: ResourceTree
    size: int | None = None
    message: str | None = None
    lazy: bool = False
    """Whether opening the node reads a directory."""

    @property
    def uri(self) -> str | None:
        """The URI of the resource."""
        return None if self.node.resource is None else self.node.resource.uri


async def tree_window(
    lists: Lists, messages: Mapping[str, str], view: TreeSelection, offset: int, limit: int, seq: int
) -> ListWindow[TreeRow]:
    """Return a window of the tree. Open directories are read, and shown without entries while that takes long.

    ``messages`` say why servers have no resources now.
    The ids of nodes are stable: they are made of the server's name and the path.
    """
    nodes = await _flat(lists, view, PATIENCE)
    rows = tuple(_row(node, messages, lists.directories, view) for node in nodes[offset : offset + limit])
    return ListWindow(total=len(nodes), offset=offset, rows=rows, seq=seq)


async def place_of(lists: Lists, view: TreeSelection, server: str, uri: str) -> Place:
    """Return the place of a resource in the tree. Directories on the way to it are read."""
    await lists.find_directory(server, uri)
    way: set[str] = set()
    below: str | None = uri
    while below is not None and len(way) < MAX_OPEN:
        parts = segments(below)
        ids = {_id(server, parts[:end]) for end in range(len(parts) + (below != uri))}
        below = None if ids <= way else lists.directories.owner(server, below)
        way |= ids
    nodes = await _flat(lists, view._replace(opened=view.opened | way), None)
    index = next(
        (at for at, each in enumerate(nodes) if each.level > 1 and each.server == server and each.uri == uri), None
    )
    if index is None:
        return Place(open=(), index=None)
    return Place(open=tuple(each.id for each in nodes if each.id in way), index=index)


async def _flat(lists: Lists, view: TreeSelection, patience: float | None) -> Sequence[FlatNode]:
    """Return the nodes of the tree that are shown. Read the open directories level by level."""
    found, whole = await lists.trees(view.q), await lists.trees("")
    directories = lists.directories
    for _ in range(MAX_LEVELS):
        nodes: Sequence[FlatNode] = await lists.derived(
            ("flat", view, directories.version), lambda: list(Flattening(directories, view.opened).run(found, whole))
        )
        unread = [
            (each.server, each.uri)
            for each in nodes
            if each.lazy and each.id in view.opened and each.uri and directories.get(each.server, each.uri) is None
        ]
        version = directories.version
        await directories.read(unread, patience)
        if directories.version == version:
            break
    return nodes


class Flattening:
    """Flattens trees: yields the nodes whose parents are all open."""

    def __init__(self, directories: Directories, opened: frozenset[str]) -> None:
        self._directories = directories
        self._opened = opened

    def run(self, found: Sequence[ServerTree], whole: Sequence[ServerTree]) -> Iterator[FlatNode]:
        """Yield the nodes of the servers. ``whole`` are their trees without a filter."""
        roots = {each.server: _root(each.tree) for each in whole}
        for server, node, size, message in found:
            path = roots.get(server, ())
            for part in path:
                node = node.children.get(part, node)
            # The list has the entries of a root. Only a root without any is read.
            lazy = node.is_directory and not node.children
            flat = FlatNode(_id(server, path), 1, printable(server), server, node, size, message, lazy)
            yield from self._with_nodes_below(flat, path)

    def _with_nodes_below(self, flat: FlatNode, path: tuple[str, ...]) -> Iterator[FlatNode]:
        read = self._directories.get(flat.server, flat.uri) if flat.lazy and flat.uri else None
        node = flat.node if read is None else flat.node.united(read.tree)
        yield flat._replace(node=node)
        if flat.id not in self._opened:
            return
        for parts, label, below in _sorted(node):
            inside = (*path, *parts)
            id, lazy = _id(flat.server, inside), below.is_directory
            child = FlatNode(id, flat.level + 1, label, flat.server, below, lazy=lazy)
            yield from self._with_nodes_below(child, inside)


def _sorted(node: ResourceTree) -> list[tuple[tuple[str, ...], str, ResourceTree]]:
    """Return the children of a node with their labels: folders first, each by their labels."""
    found = []
    for part, child in node.children.items():
        parts, below = child.merged(part)
        is_leaf = below is child and below.resource is not None and not below.children
        label = title_of(below.resource) if is_leaf else printable(readable_path(parts))
        found.append((parts, label, below))
    found.sort(key=lambda each: (not (each[2].children or each[2].is_directory), each[1].casefold()))
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


def _id(server: str, path: Sequence[str]) -> str:
    return blake2b("\0".join((server, *path)).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _row(flat: FlatNode, messages: Mapping[str, str], directories: Directories, view: TreeSelection) -> TreeRow:
    node = flat.node
    is_server = flat.level == 1
    resource = node.resource
    read = directories.get(flat.server, resource.uri) if flat.lazy and resource is not None else None
    reason = None if read is None else read.reason
    reading = is_server and flat.message == READING
    return TreeRow(
        id=flat.id,
        level=flat.level,
        label=flat.label,
        kind="server" if is_server else "folder" if node.children or node.is_directory else "resource",
        server=flat.server,
        uri=None if resource is None else resource.uri,
        expandable=bool(node.children) or (flat.lazy and (read is None or read.reason is not None)),
        row=None if resource is None else row_of("resource", Hosted(flat.server, resource)),
        count=None if reading else flat.size if is_server else len(node.children) or None,
        message=None if reading else messages.get(flat.server, flat.message) or reason if is_server else reason,
        directory="reading" if reading else _state(read, flat.id in view.opened) if flat.lazy else None,
    )


def _state(read: Directory | None, is_open: bool) -> Literal["unread", "reading", "read", "partial", "failed"]:
    if read is None:
        return "reading" if is_open else "unread"
    return "failed" if read.reason is not None else "read" if read.complete else "partial"
