"""Servers: their state as the page shows it, with latencies and the checks of failed connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import perf_counter
from typing import Any

from carrel.errors import MCPError
from carrel.host.checks import check_connection
from carrel.host.host import Host
from carrel.host.hosted_server import HostedServer
from carrel.log import Log
from carrel.printable import printable, printable_lines
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import LIST_NOTIFICATIONS
from carrel.redaction import without_secrets
from carrel.studio.api import Check, Counts, ItemKind, ServerStatus
from carrel.studio.events import PageEvents
from carrel.studio.icons import icon_of
from carrel.studio.interfaces import Interfaces
from carrel.studio.lists import ListFailure, Lists
from carrel.studio.problems import NotFound

__all__ = ["Servers"]

log = Log("carrel.studio")

#: Lists that are read when a server is ready.
KINDS: tuple[ItemKind, ...] = ("resource", "template", "tool", "prompt")
#: Seconds that a ping may take.
PATIENCE = 10.0
#: Seconds between a change of a list and its new length, so that many changes cost one read.
RECOUNT = 1.0


class Servers:
    """States of the servers of a host."""

    def __init__(self, host: Host, lists: Lists, events: PageEvents, interfaces: Interfaces) -> None:
        self._host = host
        self._lists = lists
        self._events = events
        self._interfaces = interfaces
        self._latencies: dict[str, float] = {}
        self._checks: dict[str, tuple[Check, ...]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def find(self, name: str) -> HostedServer:
        """Return a server by name.

        Raises:
            NotFound: there is no such server.
        """
        found = self._host.servers.get(name)
        if found is None:
            raise NotFound("There is no such server")
        return found

    @property
    def all(self) -> tuple[ServerStatus, ...]:
        """The states of all servers."""
        return tuple(map(self.state, self._host.servers.values()))

    @property
    def messages(self) -> dict[str, str]:
        """Why servers have no lists now, by name."""
        servers = [each for each in self._host.servers.values() if each.state != "ready"]
        return {each.name: printable(without_secrets((each.reason or each.state).split("\n")[0])) for each in servers}

    def state(self, server: HostedServer) -> ServerStatus:
        """Return the state of a server."""
        info, config = server.info, server.config
        reason = None if server.state == "ready" else server.reason
        software = None if info is None else printable(f"{info.name} {info.version}".strip())
        return ServerStatus(
            name=server.name,
            title=None if info is None or info.title is None else printable(info.title),
            icon=None if info is None else icon_of(info.icons),
            description=None if info is None else info.description,
            state=server.state,
            reason=None if reason is None else printable_lines(without_secrets(reason)),
            cause=None if server.state == "ready" else server.cause,
            revision=server.revision,
            software=software,
            transport="memory" if config.app is not None else "stdio" if config.url is None else "http",
            latency=self._latencies.get(server.name),
            instructions=server.instructions,
            counts=Counts(
                resources=self._lists.count(server.name, "resource"),
                templates=self._lists.count(server.name, "template"),
                tools=self._lists.count(server.name, "tool"),
                prompts=self._lists.count(server.name, "prompt"),
            ),
            checklist=self._checks.get(server.name, ()) if server.state == "failed" else (),
            stderr=bool(server.stderr),
            tasks=_decides_tasks(server),
        )

    def publish(self, name: str) -> None:
        """Report the state of a server to the page, or that there is no such server any more."""
        server = self._host.servers.get(name)
        if server is None:
            self._events.put(type="serverGone", name=name)
        else:
            self._events.put(type="server", server=self.state(server))

    def changed(self, name: str) -> None:
        """Report a changed state, then measure the latency and read the lists, or check the failed connection."""
        self.publish(name)
        server = self._host.servers.get(name)
        if server is None:
            self._start(name, None)
        elif server.state == "ready":
            self._start(name, self._measure(server))
        elif server.state == "failed" and name not in self._checks:
            self._start(name, self._check(server))

    def _start(self, name: str, work: Coroutine[Any, Any, None] | None) -> None:
        old = self._tasks.pop(name, None)
        if old is not None:
            old.cancel()
        if work is not None:
            self._tasks[name] = asyncio.ensure_future(work)

    async def _measure(self, server: HostedServer) -> None:
        self._checks.pop(server.name, None)
        began = perf_counter()
        try:
            await server.client.ping(timeout=PATIENCE)
            self._latencies[server.name] = round((perf_counter() - began) * 1000, 1)
        except MCPError as error:
            log.debug("%s does not answer a ping: %s", server.name, error)
        await self._count(server)

    def recount(self, name: str) -> None:
        """Read the changed lists of a server after a pause, and report their lengths to the page."""
        server, running = self._host.servers.get(name), self._tasks.get(name)
        if server is not None and (running is None or running.done()):
            self._start(name, self._count(server, RECOUNT))

    async def _count(self, server: HostedServer, pause: float = 0.0) -> None:
        await asyncio.sleep(pause)
        found = await asyncio.gather(*(self._lists.of(server, kind) for kind in KINDS))
        read = zip(KINDS, found, strict=True)
        self._interfaces.note(server.name, {kind: each for kind, each in read if not isinstance(each, ListFailure)})
        self.publish(server.name)

    async def _check(self, server: HostedServer) -> None:
        checks = await check_connection(server)
        self._checks[server.name] = tuple(
            Check(step=check.step, ok=check.ok, detail=printable(without_secrets(check.detail))) for check in checks
        )
        self.publish(server.name)

    async def reconnect(self, name: str) -> None:
        """Start to reconnect to a failed server. Check a connected server, and read its lists again."""
        server = self.find(name)
        self._checks.pop(name, None)
        if server.state == "failed":
            self._start(name, self._again(name))
        elif server.state == "ready":
            server.check()
            server.changed(list(LIST_NOTIFICATIONS))

    async def _again(self, name: str) -> None:
        try:
            await self._host.reconnect(name)
        except MCPError as error:
            log.debug("%s is still not available: %s", name, error)

    async def close(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _decides_tasks(server: HostedServer) -> bool:
    """Return whether a server has the tasks extension, with which it decides what becomes a task."""
    return server.state == "ready" and TASKS.name in (server.client.capabilities.extensions or {})
