"""Check change notifications: compare the changes during tool calls with the server's notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from carrel.client.watch import Watch
from carrel.doctor.lists import wire_names
from carrel.doctor.subject import Subject
from carrel.errors import MCPError
from carrel.protocol.methods import LIST_CAPABILITIES, LIST_NOTIFICATIONS, LIST_REQUESTS, ListCapability, RequestType

__all__ = ["changes_observed"]

#: How many resources are subscribed to.
MAX_WATCHED = 5
#: Seconds that a notification may take after the change that it is about.
PATIENCE = 2.0
#: Requests of the lists that can change.
LISTS: Mapping[ListCapability, RequestType] = {
    kind: LIST_REQUESTS[LIST_NOTIFICATIONS[name].items[0]] for name, kind in LIST_CAPABILITIES.items()
}


class _Arrived:
    """Notifications that have arrived: kinds of lists, and URIs of resources."""

    def __init__(self) -> None:
        self.all: set[str] = set()
        self._news = asyncio.Event()

    async def follow(self, watch: Watch) -> None:
        """Record notifications, until cancelled."""
        with suppress(MCPError):  # the connection is lost, which is a finding of other checks
            async for change in watch:
                self.all.add(change.uri or change.kind)
                self._news.set()

    async def wait_for(self, wanted: set[str]) -> set[str]:
        """Wait for notifications; return the ones that did not arrive in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not wanted <= self.all:
                    self._news.clear()
                    await self._news.wait()
        return wanted - self.all


@asynccontextmanager
async def changes_observed(subject: Subject) -> AsyncIterator[None]:
    """Subscribe to everything that the server declares, and find changes without a notification while the block runs.

    The block calls tools, which may change something. Resources that differ with every read are left out.
    """
    client = subject.client
    lists = [kind for kind in LISTS if client.session.server.reports_changes(kind)]
    declared = client.capabilities.resources
    uris = await steady(subject) if declared is not None and declared.subscribe is True else {}
    if not lists and not uris:
        yield
        return
    before = {kind: await keys_of(subject, kind) for kind in lists}
    arrived = _Arrived()
    try:
        watch = await client.watch(*uris, lists=lists).__aenter__()
    except MCPError:
        yield  # which the check of subscriptions finds
        return
    following = asyncio.ensure_future(arrived.follow(watch))
    try:
        yield
        if not await subject.alive():
            return
        changed: set[str] = {kind for kind in lists if await keys_of(subject, kind) != before[kind]}
        changed |= {uri for uri, text in uris.items() if await contents_of(subject, uri) not in (text, None)}
        late = await arrived.wait_for(changed - set(watch.refused))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        with suppress(MCPError):
            await watch.__aexit__(None, None, None)
    report(subject, changed, late, arrived.all)


def report(subject: Subject, changed: set[str], late: set[str], arrived: set[str]) -> None:
    """Add findings for changes without notification, and a note that says what could be observed."""
    subject.report.check("changes", len(changed))
    for name in sorted(late):
        about = f"the list of {name} has changed" if name in LISTS else f"{name} has changed"
        subject.find("unannounced", f"{about} while tools were called, and no notification came within {PATIENCE:g} s")
    if changed - late:
        subject.report.notes.append(f"notifications of changes arrived: {', '.join(sorted(changed - late))}")
    elif not changed and not arrived:
        subject.report.notes.append(
            "nothing changed meanwhile, so whether notifications arrive is not known"
            + ("" if subject.call else "; --call calls tools that may change something")
        )


async def keys_of(subject: Subject, kind: ListCapability) -> list[str] | None:
    """Return what identifies the items on the first page of a list; None without a response."""
    row = LISTS[kind]
    key, identity = wire_names(row)
    response = await subject.ask(row.method)
    items = response.result.get(key) if isinstance(response.result, dict) else None
    if not isinstance(items, list):
        return None
    return [str(item.get(identity)) for item in items if isinstance(item, dict)]


async def contents_of(subject: Subject, uri: str) -> bytes | None:
    """Return the contents of a resource, encoded; None if it cannot be read."""
    response = await subject.ask("resources/read", {"uri": uri}, name=uri)
    contents: Any = response.result.get("contents") if isinstance(response.result, dict) else None
    return None if contents is None else msgspec.json.encode(contents)


async def steady(subject: Subject) -> dict[str, bytes]:
    """Return the first resources that are the same when they are read twice, with their contents."""
    found: dict[str, bytes] = {}
    for item in subject.lists.get("resources", [])[:MAX_WATCHED]:
        uri = str(item.get("uri"))
        first = await contents_of(subject, uri)
        if first is not None and first == await contents_of(subject, uri):
            found[uri] = first
    return found
