"""ResourceTree: the resources of a server as a tree of the segments of their URIs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from carrel.media_types import DIRECTORY
from carrel.wire.resources import Resource

__all__ = ["ResourceTree", "readable_path", "segments"]


class ResourceTree:
    """Node of a tree: a part of a URI with its children, and the resource with this URI, if any."""

    __slots__ = ("children", "resource")

    def __init__(self) -> None:
        self.children: dict[str, ResourceTree] = {}
        self.resource: Resource | None = None

    def add(self, resource: Resource) -> ResourceTree:
        """Add a resource at the place given by the segments of its URI, and return its node."""
        return self.put(segments(resource.uri), resource)

    def put(self, parts: Sequence[str], resource: Resource) -> ResourceTree:
        """Add a resource below this node, and return its node."""
        node = self
        for part in parts:
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = ResourceTree()
            node = child
        node.resource = resource
        return node

    def find(self, parts: Sequence[str]) -> ResourceTree | None:
        """Return the node below this node at a place, or None."""
        node: ResourceTree | None = self
        for part in parts:
            node = None if node is None else node.children.get(part)
        return node

    def united(self, other: ResourceTree) -> ResourceTree:
        """Return a node with the children of both nodes, and with the resource of the other one if it has any."""
        node = ResourceTree()
        node.resource = other.resource or self.resource
        node.children = {**self.children, **other.children}
        for part in self.children.keys() & other.children.keys():
            node.children[part] = self.children[part].united(other.children[part])
        return node

    @property
    def is_directory(self) -> bool:
        """Whether the resource is a directory."""
        return self.resource is not None and self.resource.mime_type == DIRECTORY

    def merged(self, part: str) -> tuple[tuple[str, ...], ResourceTree]:
        """Merge this node, whose segment is ``part``, with only children. Return the segments and the last node."""
        parts, node = [part], self
        while node.resource is None and len(node.children) == 1:
            ((part, node),) = node.children.items()
            parts.append(part)
        return tuple(parts), node


def readable_path(parts: Iterable[str]) -> str:
    """Return segments as a path for people: ``a/b/c``."""
    return "/".join(map(readable, parts))


def readable(part: str) -> str:
    """Decode the percent-encoding of a URI segment, unless it is invalid or contains an encoded slash."""
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        return part
    return text if text.count("/") == part.count("/") else part


def segments(uri: str) -> list[str]:
    """Split a URI into the scheme with the authority, and the path segments. The last segment includes the query."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        scheme, mark, rest = uri.partition(":")
    path, question, query = rest.partition("?")
    first, *parts = path.rstrip("/").split("/")
    found = [f"{scheme}{mark}{first}", *parts]
    found[-1] += question + query
    return found
