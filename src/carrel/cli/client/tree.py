"""``carrel tree``: shows the resources of a server as a tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from carrel.cli.client.connection import add_connection_options, ask, read_target, shown
from carrel.cli.client.ls import size, unless_in
from carrel.cli.options import Parser
from carrel.cli.terminal.output import write_json, write_text
from carrel.cli.terminal.progress import Bar, counted
from carrel.cli.values import positive
from carrel.errors import PeerError
from carrel.media_types import DIRECTORY
from carrel.protocol.extensions.skills import SKILLS

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.resources import Resource

__all__ = ["TreeNode", "parser", "run"]

SUMMARY = "Show the resources of a server as a tree: by its directories if it has any, else by the paths of the URIs."
EXAMPLES = """\
examples:
  carrel tree ./notes
  carrel tree http://127.0.0.1:8000/mcp --depth 2
  carrel tree -- npx -y @modelcontextprotocol/server-everything
"""
#: Maximum number of directories to read.
MAX_DIRECTORIES = 10_000


def parser() -> Parser:
    """Return the argument parser of ``carrel tree``."""
    reader = Parser("tree", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument("--depth", metavar="N", type=positive, help="the number of levels (default: all)")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel tree`` and return the exit code: 0, 1 if the server answered with an error, 3 without a connection.

    Raises:
        ConfigError: wrong use.
    """
    options, target = read_target(parser(), arguments)
    bar = Bar.of(options)

    async def show(client: Client) -> int:
        root = TreeNode()
        for resource in await counted(client.list_resources(), bar, "resources"):
            root.add(resource)
        settings = client.session.server_extensions.get(SKILLS.name)
        if isinstance(settings, dict) and settings.get("directoryRead"):
            await read_directories(client, root, bar)
        bar.stop()
        if options.json:
            write_json(root.as_json(options.depth)["children"])
        else:
            lines = list(root.lines(options.depth, marks()))
            write_text("\n".join(lines) or "It lists no resources.", escape=False)
        return 0

    return ask(target, options, show, bar=bar)


class TreeNode:
    """Node of the tree: a part of a URI, and the resource with this URI, if any."""

    def __init__(self) -> None:
        self.children: dict[str, TreeNode] = {}
        self.resource: Resource | None = None

    def add(self, resource: Resource) -> TreeNode:
        """Add a resource at the place given by the segments of its URI, and return its node."""
        node = self
        for part in segments(resource.uri):
            node = node.children.setdefault(part, TreeNode())
        node.resource = resource
        return node

    def directories(self) -> list[str]:
        """Return the URIs of the directories in the tree."""
        own = [self.resource.uri] if self.resource is not None and self.resource.mime_type == DIRECTORY else []
        return own + [uri for child in self.children.values() for uri in child.directories()]

    def lines(self, depth: int | None, marks: tuple[str, ...], before: str = "") -> Iterator[str]:
        """Return the lines of the tree below this node, down to ``depth`` levels."""
        last = len(self.children) - 1
        for number, (name, child) in enumerate(self.children.items()):
            name, child = merged(name, child)
            branch, pass_by = (marks[1], marks[3]) if number == last else (marks[0], marks[2])
            more = " …" if depth == 1 and child.children else ""
            yield f"{before}{branch}{shown(name)}{child.described()}{more}"
            if depth is None or depth > 1:
                yield from child.lines(None if depth is None else depth - 1, marks, before + pass_by)

    def described(self) -> str:
        """Return the size, media type and title of the resource, if they add information to its name."""
        resource = self.resource
        if resource is None or resource.mime_type == DIRECTORY:
            return ""
        title = unless_in(resource.uri, resource.title or resource.name)
        facts = [fact for fact in (size(resource.size), resource.mime_type or "", title) if fact]
        return f"  ({shown(', '.join(facts))})" if facts else ""

    def as_json(self, depth: int | None) -> dict[str, Any]:
        """Return the tree as JSON values."""
        value: dict[str, Any] = {} if self.resource is None else {"resource": self.resource}
        if self.children and depth != 0:
            below = None if depth is None else depth - 1
            value["children"] = {name: child.as_json(below) for name, child in self.children.items()}
        return value if self.resource is not None or "children" in value else {"children": {}}


def merged(name: str, node: TreeNode) -> tuple[str, TreeNode]:
    """Merge a node with a chain of only children into one line: ``a/b/c/``."""
    name = readable(name)
    while node.resource is None and len(node.children) == 1:
        (part, node) = next(iter(node.children.items()))
        name += f"/{readable(part)}"
    return (f"{name}/" if node.children else name), node


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


async def read_directories(client: Client, root: TreeNode, bar: Bar) -> None:
    """Add the contents of the tree's directories recursively, as listed by the server."""
    waiting, seen = root.directories(), set[str]()
    while waiting and len(seen) < MAX_DIRECTORIES:
        uri = waiting.pop()
        if uri in seen:
            continue
        seen.add(uri)
        bar.update(f"reading {uri}", len(seen), len(seen) + len(waiting))
        try:
            children = await client.list_directory(uri)
        except PeerError:  # the directory may have been deleted
            continue
        for child in children:
            root.add(child)
            if child.mime_type == DIRECTORY:
                waiting.append(child.uri)


def marks() -> tuple[str, ...]:
    """Return the branches of the tree, in ASCII if the output encoding supports no others."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return ("├── ", "└── ", "│   ", "    ") if encoding.startswith("utf") else ("|-- ", "`-- ", "|   ", "    ")
