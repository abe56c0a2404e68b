"""``carrel watch``: shows changes of the resources and lists of a server as they happen.

Without URIs, up to ``MOST`` listed resources are watched. The list is read again when it changes.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from carrel.cli.client.connection import SERVER_ERROR, add_connection_options, ask, failed, read_target, shown
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.cli.values import positive
from carrel.errors import MCPError
from carrel.protocol.methods import LIST_KINDS
from carrel.wire.resources import BlobResourceContents

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.client.watch import Watch, WatchEvent

__all__ = ["parser", "run"]

SUMMARY = "Show changes of resources and lists as they happen, a line each, until Ctrl-C."
EXAMPLES = """\
examples:
  carrel watch ./notes                                  all listed resources, and the lists
  carrel watch ./notes file:///srv/notes/plan.md --diff
  carrel watch http://127.0.0.1:8000/mcp --count 1      wait for one change
  carrel watch http://127.0.0.1:8000/mcp --lists    the lists only
"""
#: Maximum number of resources to watch if no URIs are given.
MOST = 1000
#: Maximum number of concurrent reads.
AT_ONCE = 16


def parser() -> Parser:
    """Return the argument parser of ``carrel watch``."""
    reader = Parser("watch", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument(
        "uris",
        metavar="URI",
        nargs="*",
        help="a resource to watch, or a directory (default: all listed resources, and the lists)",
    )
    reader.add_argument("--lists", action="store_true", help="watch the lists, and only the given resources")
    reader.add_argument("--diff", action="store_true", help="show changes of text as a unified diff")
    reader.add_argument("--count", metavar="N", type=positive, help="end after N changes")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel watch`` and return the exit code: 0, 1 if the server does not send notifications, 3 if the
    connection is lost.

    Raises:
        ConfigError: wrong use.
    """
    options, target = read_target(parser(), arguments)

    async def follow(client: Client) -> int:
        watching = Watching(client, options.uris, lists_only=options.lists)
        await watching.look()
        if not watching.uris and not watching.lists:
            return failed(
                f"{target.name} has no notifications of its lists and no subscriptions to its listed resources; give "
                "the URI of a resource",
                SERVER_ERROR,
            )
        before = await read_texts(client, watching.uris) if options.diff else None
        changes = watching.open()
        try:
            await changes.start()
            print_rejected(changes.refused, watching)
            if len(changes.refused) == len(watching.uris) + len(watching.lists):
                return SERVER_ERROR
            print_stderr(f"watching {shown(watching.description, 300)}; Ctrl-C ends")
            number = 0
            while True:
                change = await anext(changes)
                await show(client, change, before, as_json=options.json)
                number += 1
                if number == options.count:
                    return 0
                if change.kind in ("resources", "missed") and await watching.look():
                    other = watching.open()
                    await other.start()
                    earlier, changes = changes, other
                    for waiting in await drained(earlier):
                        changes.put(waiting)
        finally:
            await changes.close()

    return ask(target, options, follow)


class Watching:
    """Resources and lists to watch. Without ``uris``, the listed resources are watched if the server supports it."""

    def __init__(self, client: Client, uris: Sequence[str], *, lists_only: bool) -> None:
        self._client = client
        facts, offered = client.session.server, client.session.capabilities.resources
        self.uris = tuple(dict.fromkeys(uris))
        self.lists = [kind for kind in LIST_KINDS if facts.reports_changes(kind)] if lists_only or not uris else []
        self.follows = not uris and not lists_only and offered is not None and offered.subscribe is True
        """Whether all listed resources are watched."""
        self._warned = False

    async def look(self) -> bool:
        """List the resources, if all listed resources are watched. Return whether the set has changed."""
        if not self.follows:
            return False
        found: dict[str, None] = {}
        async for resource in self._client.list_resources():
            if len(found) == MOST and resource.uri not in found:
                if not self._warned:
                    print_stderr(
                        f"carrel: only the first {MOST:,} listed resources are watched; give the URIs of others"
                    )
                self._warned = True
                break
            found[resource.uri] = None
        before, self.uris = self.uris, tuple(found)
        return set(before) != set(self.uris)

    def open(self) -> Watch:
        """Open the watch."""
        return self._client.watch(*self.uris, lists=self.lists)

    @property
    def description(self) -> str:
        """Names of the watched resources and lists, or the number of resources."""
        if not self.follows:
            return ", ".join([*self.uris, *self.lists])
        count = len(self.uris)
        parts = [
            f"{count:,} resource{'s' * (count != 1)}",
            f"the lists of {', '.join(self.lists)}" if self.lists else "",
        ]
        return " and ".join(filter(None, parts))


def print_rejected(refused: Sequence[str], watching: Watching) -> None:
    """Print the subscriptions rejected by the server. For listed resources, print only the number."""
    single = [name for name in refused if not watching.follows or name in watching.lists]
    for name in single:
        print_stderr(f"carrel: {shown(name)} is not watched: the server refuses")
    if len(refused) > len(single):
        count = f"{len(refused) - len(single):,} of {len(watching.uris):,}"
        print_stderr(f"carrel: {count} resources are not watched: the server refuses")


async def drained(watch: Watch) -> list[WatchEvent]:
    """Close a watch, and return its pending changes."""
    await watch.close()
    return [change async for change in watch]


async def read_texts(client: Client, uris: Sequence[str]) -> dict[str, str | None]:
    """Read the texts of resources, a few at a time."""
    found: dict[str, str | None] = {}
    for start in range(0, len(uris), AT_ONCE):
        some = uris[start : start + AT_ONCE]
        found.update(zip(some, await asyncio.gather(*(read_text(client, uri) for uri in some)), strict=True))
    return found


async def show(client: Client, change: WatchEvent, before: dict[str, str | None] | None, *, as_json: bool) -> None:
    """Print a change and the diff to the previous text, and store the new text."""
    now = time.strftime("%H:%M:%S")
    difference = ""
    if before is not None and change.uri is not None:
        text = await read_text(client, change.uri)
        difference = unified(before.get(change.uri), text, change.uri)
        before[change.uri] = text
    if as_json:
        entry = {"time": now, "kind": change.kind, "uri": change.uri} | ({"diff": difference} if difference else {})
        write_text(msgspec.json.encode(entry).decode())
        return
    words = {"resource": shown(change.uri or ""), "missed": "reconnected: any resource may have changed"}
    write_text(f"{now}  {words.get(change.kind, f'the list of {change.kind}')}", escape=False)
    if difference:
        write_text(difference)


async def read_text(client: Client, uri: str) -> str | None:
    """Return the text of a resource, or None if it has no text or cannot be read."""
    try:
        contents = (await client.read_resource(uri)).contents
    except MCPError:
        return None
    if any(isinstance(part, BlobResourceContents) for part in contents):
        return None
    return "".join(part.text for part in contents if not isinstance(part, BlobResourceContents))


def unified(before: str | None, after: str | None, uri: str) -> str:
    """Return the diff of two texts. None stands for a resource without text."""
    lines = difflib.unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        fromfile="before" if before is not None else "(no text)",
        tofile=uri if after is not None else "(no text)",
        lineterm="",
    )
    return "\n".join(lines)
