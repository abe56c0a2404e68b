"""``carrel tree``: shows the resources of a server as a tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from carrel.cli.client.connection import add_connection_options, ask, read_target, shown
from carrel.cli.client.ls import size, unless_in
from carrel.cli.options import Parser
from carrel.cli.terminal.output import write_json, write_text
from carrel.cli.terminal.progress import Bar, counted
from carrel.cli.values import positive
from carrel.errors import PeerError
from carrel.host.resource_tree import ResourceTree, readable_path
from carrel.media_types import DIRECTORY
from carrel.protocol.extensions.skills import SKILLS

if TYPE_CHECKING:
    from carrel.client.client import Client

__all__ = ["parser", "run"]

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
        root = ResourceTree()
        for resource in await counted(client.list_resources(), bar, "resources"):
            root.add(resource)
        settings = client.session.server_extensions.get(SKILLS.name)
        if isinstance(settings, dict) and settings.get("directoryRead"):
            await read_directories(client, root, bar)
        bar.stop()
        if options.json:
            write_json(as_json(root, options.depth)["children"])
        else:
            lines = list(drawn(root, options.depth, marks()))
            write_text("\n".join(lines) or "It lists no resources.", escape=False)
        return 0

    return ask(target, options, show, bar=bar)


def directories(tree: ResourceTree) -> list[str]:
    """Return the URIs of the directories in a tree."""
    own = [tree.resource.uri] if tree.resource is not None and tree.is_directory else []
    return own + [uri for child in tree.children.values() for uri in directories(child)]


def drawn(tree: ResourceTree, depth: int | None, marks: tuple[str, ...], before: str = "") -> Iterator[str]:
    """Return the lines of the tree below a node, down to ``depth`` levels."""
    last = len(tree.children) - 1
    for number, (part, node) in enumerate(tree.children.items()):
        parts, child = node.merged(part)
        name = readable_path(parts) + ("/" if child.children else "")
        branch, pass_by = (marks[1], marks[3]) if number == last else (marks[0], marks[2])
        more = " …" if depth == 1 and child.children else ""
        yield f"{before}{branch}{shown(name)}{described(child)}{more}"
        if depth is None or depth > 1:
            yield from drawn(child, None if depth is None else depth - 1, marks, before + pass_by)


def described(node: ResourceTree) -> str:
    """Return the size, media type and title of a node's resource, if they add information to its name."""
    resource = node.resource
    if resource is None or node.is_directory:
        return ""
    title = unless_in(resource.uri, resource.title or resource.name)
    facts = [fact for fact in (size(resource.size), resource.mime_type or "", title) if fact]
    return f"  ({shown(', '.join(facts))})" if facts else ""


def as_json(tree: ResourceTree, depth: int | None) -> dict[str, Any]:
    """Return a tree as JSON values."""
    value: dict[str, Any] = {} if tree.resource is None else {"resource": tree.resource}
    if tree.children and depth != 0:
        below = None if depth is None else depth - 1
        value["children"] = {name: as_json(child, below) for name, child in tree.children.items()}
    return value if tree.resource is not None or "children" in value else {"children": {}}


async def read_directories(client: Client, root: ResourceTree, bar: Bar) -> None:
    """Add the contents of the tree's directories recursively, as listed by the server."""
    waiting, seen = directories(root), set[str]()
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
