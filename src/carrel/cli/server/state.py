"""``carrel state``: shows the contents of the store that replicas share, and ends a session."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from carrel.cli.config.read import read_configuration
from carrel.cli.options import Parser
from carrel.cli.server.shared_state import store_of
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import table, write_json, write_text
from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.state.interfaces import StoreUnavailable
from carrel.state.redis.overview import RedisOverview, SessionSummary, StoreSummary

__all__ = ["parser", "run"]

SUMMARY = "Show what is in the store that the replicas of a server share (Redis or Valkey), or end a session."
EXAMPLES = """\
examples:
  carrel state                                  the store of ./carrel.toml: replicas, records, bytes
  carrel state --watch --state redis://localhost:6379/0
  carrel state sessions                         ids of sessions, who has them, with which program
  carrel state end SESSION                      a session by its id or the start of its id

The keys are those of the servers: CARREL_STATE_KEYS, or keys in [state].
Exit codes: 0; 1 if the store does not answer, or there is no such session; 2 after wrong use.
"""
ARGUMENTS = {"show": 0, "sessions": 0, "end": 1}
#: Seconds between two overviews of ``--watch``.
INTERVAL = 2.0
#: Kinds of records for people.
NAMES = {
    "session": "sessions",
    "stream": "event streams",
    "task": "tasks",
    "exchange": "used request states",
    "record": "records of logins",
    "bucket": "limits",
    "mailbox": "mailboxes",
    "lock": "locks",
}
#: Characters of the shortest start of the id of a session that is accepted, and of a whole id.
SHORTEST, WHOLE = 8, 64
#: Characters of a text of a client that are shown.
LONGEST = 60


def parser() -> Parser:
    """Return the argument parser of ``carrel state``."""
    reader = Parser("state", SUMMARY, epilog=EXAMPLES)
    reader.add_argument(
        "action", metavar="ACTION", nargs="?", default="show", choices=tuple(ARGUMENTS), help="show, sessions or end"
    )
    reader.add_argument("arguments", metavar="SESSION", nargs="*", help="end: the id of the session, or its start")
    reader.add_argument("--state", metavar="URL", help="URL of Redis or Valkey (default: url in [state])")
    reader.add_argument("--config", metavar="FILE", help="the file with [state] (default: ./carrel.toml)")
    reader.add_argument("--watch", action="store_true", help="show, sessions: again every 2 seconds, until Ctrl-C")
    reader.add_argument("--json", action="store_true", help="show, sessions: print JSON")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel state`` and return the exit code.

    Raises:
        ConfigError: wrong use, no store, or a store that cannot be reached.
    """
    options = parser().parse_intermixed_args(arguments)
    if len(options.arguments) != ARGUMENTS[options.action]:
        raise ConfigError("usage: carrel state [show | sessions | end SESSION]")
    configuration = read_configuration(options, targeted=False)
    if configuration.settings.state.url is None:
        raise ConfigError(
            "no store given: name a Redis with --state URL, or a carrel.toml with url in [state]; the memory that "
            "workers share without a Redis cannot be shown"
        )
    store = store_of(configuration)
    return asyncio.run(_run(RedisOverview(store.url, store.keys, prefix=store.prefix), options))


async def _run(overview: RedisOverview, options: argparse.Namespace) -> int:
    async with overview:
        try:
            if options.action == "end":
                return await _end(overview, options.arguments[0])
            while True:
                await _print(overview, options)
                if not options.watch:
                    return 0
                await asyncio.sleep(INTERVAL)
        except StoreUnavailable as error:
            print_stderr(f"carrel: {overview.shown}: {error}")
            return 1


async def _end(overview: RedisOverview, session: str) -> int:
    matching = await overview.ids(session) if SHORTEST <= len(session) < WHOLE else []
    if len(matching) > 1:
        print_stderr(f"carrel: {overview.shown} has {len(matching)} sessions that begin with {session}")
        return 1
    if not await overview.end_session(*matching or [session]):
        print_stderr(f"carrel: {overview.shown} has no session {printable(session, LONGEST)}")
        return 1
    write_text("the session has ended\n")
    return 0


async def _print(overview: RedisOverview, options: argparse.Namespace) -> None:
    found: Any = await (overview.sessions() if options.action == "sessions" else overview.summary())
    if options.json:
        write_json(msgspec.to_builtins(found, str_keys=True))
        return
    text = describe_sessions(found) if options.action == "sessions" else describe(overview.shown, found)
    write_text(f"{time.strftime('%H:%M:%S')}\n{text}\n\n" if options.watch else f"{text}\n")


def describe(shown: str, found: StoreSummary) -> str:
    """Return a summary for people."""
    amounts = {**{NAMES[kind]: amount for kind, amount in found.kinds.items()}, "notices": found.notices}
    replicas = [[str(slot), f"{seconds:.0f} s"] for slot, seconds in sorted(found.replicas.items())]
    records = [[name, f"{amount.records:,}", f"{amount.bytes:,} bytes"] for name, amount in amounts.items()]
    title = f"{shown}, {printable(found.server, LONGEST)}"
    return "\n\n".join([title, table("Replicas and their leases", replicas or [["none"]]), table("Records", records)])


def describe_sessions(found: Iterable[SessionSummary]) -> str:
    """Return sessions for people."""
    rows = [
        [
            one.id or "",
            printable(one.owner or "anonymous", LONGEST),
            printable(one.client, LONGEST),
            one.revision,
            "1 subscription" if one.subscriptions == 1 else f"{one.subscriptions} subscriptions",
            f"kept for {one.seconds:.0f} s",
        ]
        for one in found
    ]
    return table("Sessions", rows or [["none"]])
