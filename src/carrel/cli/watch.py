"""``carrel watch``: shows changes of the resources and lists of a server as they happen."""

from __future__ import annotations

import difflib
import sys
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from carrel.cli.options import Parser
from carrel.cli.output import write_text
from carrel.cli.target import REFUSED, add_connection_options, ask, failed, read_asked, shown
from carrel.cli.values import positive
from carrel.errors import MCPError
from carrel.wire.resources import BlobResourceContents

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.client.watch import Change

__all__ = ["parser", "run"]

SUMMARY = "Show changes of resources and lists as they happen, a line each, until Ctrl-C."
EXAMPLES = """\
examples:
  carrel watch ./notes                                  whatever its lists announce
  carrel watch ./notes file:///srv/notes/plan.md --diff
  carrel watch http://127.0.0.1:8000/mcp --count 1      wait for one change
"""
KINDS: tuple[Literal["resources", "tools", "prompts"], ...] = ("resources", "tools", "prompts")


def parser() -> Parser:
    """Return the argument parser of ``carrel watch``."""
    reader = Parser("watch", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument(
        "uris", metavar="URI", nargs="*", help="a resource to watch, or a directory (default: the lists of the server)"
    )
    reader.add_argument("--diff", action="store_true", help="show what has changed in a text, as a unified diff")
    reader.add_argument("--count", metavar="N", type=positive, help="end after N changes")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel watch`` and return the exit code: 0, 1 if the server does not tell of changes, 3 if it is lost.

    Raises:
        ConfigError: wrong use.
    """
    options, whom = read_asked(parser(), arguments)

    async def follow(client: Client) -> int:
        lists = [] if options.uris else [kind for kind in KINDS if client.session.server.announces(kind)]
        if not options.uris and not lists:
            return failed(f"{whom.name} announces no changes of its lists; give the URI of a resource", REFUSED)
        before = {uri: await read_text(client, uri) for uri in options.uris} if options.diff else {}
        async with client.watch(*options.uris, lists=lists) as changes:
            for refused in changes.refused:
                sys.stderr.write(f"carrel: {shown(refused)} is not watched: the server refuses\n")
            if len(changes.refused) == len(options.uris) + len(lists):
                return REFUSED
            sys.stderr.write(f"watching {shown(', '.join([*options.uris, *lists]), 300)}; Ctrl-C ends\n")
            number = 0
            async for change in changes:
                await show(client, change, before if options.diff else None, as_json=options.json)
                number += 1
                if number == options.count:
                    break
        return 0

    return ask(whom, options, follow)


async def show(client: Client, change: Change, before: dict[str, str | None] | None, *, as_json: bool) -> None:
    """Print a change, and the difference to the text that was there before, which is replaced."""
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
    words = {"resource": shown(change.uri or ""), "missed": "connected again: anything may have changed"}
    write_text(f"{now}  {words.get(change.kind, f'the list of {change.kind}')}", escape=False)
    if difference:
        write_text(difference)


async def read_text(client: Client, uri: str) -> str | None:
    """Return the text of a resource; None if it has none, or cannot be read."""
    try:
        contents = (await client.read_resource(uri)).contents
    except MCPError:
        return None
    if any(isinstance(part, BlobResourceContents) for part in contents):
        return None
    return "".join(part.text for part in contents if not isinstance(part, BlobResourceContents))


def unified(before: str | None, after: str | None, uri: str) -> str:
    """Return the difference of two texts; None is a resource without a text."""
    lines = difflib.unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        fromfile="before" if before is not None else "(no text)",
        tofile=uri if after is not None else "(no text)",
        lineterm="",
    )
    return "\n".join(lines)
