"""Comparison: the same request by a client of an older and of a newer revision, with their messages side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from carrel.client.client import Client
from carrel.client.handlers import ClientCall, Handlers
from carrel.errors import MCPError, PeerError
from carrel.host.hosted_server import HostedServer
from carrel.printable import printable_lines
from carrel.protocol.methods import CALL_TOOL, DISCOVER, INITIALIZE, LISTEN
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.redaction import without_secrets
from carrel.studio.problems import Refused
from carrel.studio.timeline.api import ComparableRequest, ComparedMessage, ComparedPair, Comparison
from carrel.studio.timeline.log import Entry, WireLog, record
from carrel.studio.timeline.timeline import Timeline, message_difference, row_of, text_of

__all__ = ["comparable", "compare"]

#: Seconds that each client gets to connect and for the request.
PATIENCE = 60.0
OPENING = (INITIALIZE.method, DISCOVER.method)


def comparable(entry: Entry, server: HostedServer) -> ComparableRequest:
    """Return the revisions that a request can be compared in. The older one is the revision that was spoken.

    Raises:
        Refused: the message is not a request of the client that can be sent by itself.
    """
    facts = entry.facts
    if facts is None or facts.kind != "request" or not entry.sent or facts.method is None:
        raise Refused(400, "Only requests to a server can be compared")
    if facts.method not in REQUESTS or facts.method == LISTEN.method:
        raise Refused(400, f"A request {facts.method} cannot be compared")
    spoken = None if facts.revision is None else REVISIONS[facts.revision]
    return ComparableRequest(
        number=entry.number,
        server=server.name,
        method=facts.method,
        target=facts.target,
        revisions=tuple(REVISIONS),
        old=LATEST_HANDSHAKE.name if spoken is None or spoken.stateless else spoken.name,
        new=LATEST.name,
        fixed=server.config.revision,
    )


async def compare(entry: Entry, server: HostedServer, revisions: tuple[str, str], handlers: Handlers) -> Comparison:
    """Send a request with a new client of each revision, one after the other, and return their messages.

    Raises:
        Refused: the request cannot be compared, there is no such revision, or the configuration fixes the revision.
        MCPError: the configuration of the server is not valid.
    """
    request = comparable(entry, server)
    if request.fixed is not None:
        raise Refused(
            409,
            f"The configuration of {server.name} fixes the revision {request.fixed}: every client speaks it, so there "
            "is nothing to compare",
        )
    for revision in revisions:
        if revision not in REVISIONS:
            raise Refused(400, f"There is no revision {revision!r}; they are {', '.join(REVISIONS)}")
    message = msgspec.json.decode(entry.data)
    sides, failures = [], []
    for revision in revisions:
        client = await server.another_client(revision=revision, handlers=handlers)
        entries, failure = await messages_of(client, server.name, request.method, message.get("params") or {})
        sides.append(entries)
        failures.append(failure)
    return Comparison(revisions=revisions, failures=(failures[0], failures[1]), pairs=aligned(sides[0], sides[1]))


async def messages_of(client: Client, name: str, method: str, params: dict[str, Any]) -> tuple[list[Entry], str | None]:
    """Connect a client, send a request, and return all messages, and why there is no response."""
    timeline = Timeline(WireLog())
    record(client, timeline.log, name)
    failure = None
    try:
        async with asyncio.timeout(PATIENCE), client:
            await send(client, method, params)
    except PeerError:  # its message shows it
        pass
    except TimeoutError:
        failure = f"There was no response within {PATIENCE:g} seconds"
    except MCPError as error:
        failure = printable_lines(without_secrets(str(error)))
    await timeline.read()
    return list(timeline.log.entries), failure


async def send(client: Client, method: str, params: dict[str, Any]) -> None:
    """Send a request as the client makes it in its revision, without the metadata of the first one.

    Raises:
        MCPError: there is no result.
    """
    if method in OPENING:
        return
    params = {name: value for name, value in params.items() if name != "_meta"}
    if method == CALL_TOOL.method:
        await client.call_tool(params["name"], params.get("arguments"))
        return
    row = REQUESTS[method]
    await client.session.request(ClientCall(row, msgspec.convert(params, row.params)))


def aligned(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[ComparedPair, ...]:
    """Return the messages of two clients in pairs: the same kind of message about the same method."""
    pairs: list[tuple[Entry | None, Entry | None]] = []
    matcher = SequenceMatcher(None, [role_of(each) for each in old], [role_of(each) for each in new], autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(old[old_from:old_to], new[new_from:new_to], strict=True)
        else:
            pairs += [(each, None) for each in old[old_from:old_to]]
            pairs += [(None, each) for each in new[new_from:new_to]]
    return tuple(pair_of(*pair) for pair in pairs)


def role_of(entry: Entry) -> tuple[object, ...]:
    """Return the role of a message. Both ways to open a connection have the same role."""
    facts = entry.facts
    if facts is None:
        return (entry.sent,)
    return entry.sent, facts.kind, "opening" if facts.method in OPENING else facts.method


def pair_of(old: Entry | None, new: Entry | None) -> ComparedPair:
    """Return a pair of messages, one of which may be None, with their difference."""
    return ComparedPair(
        old=None if old is None else ComparedMessage(row=row_of(old), text=text_of(old)),
        new=None if new is None else ComparedMessage(row=row_of(new), text=text_of(new)),
        hunks=None if old is None or new is None else message_difference(old, new),
    )
