"""HostedServer: one server of a host, with its configuration, state, standard error output and cached lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.paging import ListMethod, all_of
from carrel.catalog.provider import ListName, Page, ReportedEvents, Request
from carrel.client.client import Client
from carrel.client.options import ClientOptions
from carrel.errors import (
    AuthorizationError,
    ConfigError,
    LoginRequired,
    MCPError,
    PeerError,
    RequestTimeout,
    TransportError,
)
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ServerConfig
from carrel.host.config.variables import resolve
from carrel.host.reconnect import Status
from carrel.host.relayed import relaying
from carrel.host.remote import PATIENCE, RemoteProvider
from carrel.host.remote_entries import EntryReader
from carrel.host.remote_pages import LONG, MAX_LISTED
from carrel.log import Log
from carrel.protocol.extensions.skills import LIST_SKILLS
from carrel.protocol.methods import LIST_NAMES, LIST_NOTIFICATIONS, LIST_REQUESTS, ItemKind, RequestType
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.transports.client.transport import STDERR_FOLLOWS
from carrel.wire.base import Implementation

__all__ = ["CAUSES", "Cause", "HostedServer", "ServerState", "StderrTail"]

log = Log("carrel.host")

#: "idle": not connected yet, as there was no request (lazy host). "failed": see ``reason`` and ``retry_in``.
ServerState: TypeAlias = Literal["disabled", "idle", "connecting", "ready", "failed", "closed"]

#: Kind of a failure to connect.
Cause: TypeAlias = Literal["config", "login", "authorization", "timeout", "unreachable", "lost", "refused", "protocol"]
#: Short texts of the kinds, without the command, URL, variables, output and responses of a server.
CAUSES: dict[Cause, str] = {
    "config": "it is not set up correctly; the log says more",
    "login": "its users log in, each for themselves",
    "authorization": "it wants a login, or did not accept the credentials",
    "timeout": "it did not answer in time",
    "unreachable": "it cannot be reached, or its program has ended",
    "lost": "the connection was lost, or its program has ended",
    "refused": "it refuses",
    "protocol": "it does not answer as the protocol says",
}

#: Number of bytes of standard error to keep.
KEPT = 64 * 1024
#: Number of characters of standard error to show with a failure.
SHOWN = 2000
#: Requests for the lists of a server.
LISTS: Mapping[ItemKind, RequestType] = {**LIST_REQUESTS, "skill": LIST_SKILLS}


class StderrTail:
    """The last ``limit`` bytes that a server has written to standard error, across all of its processes."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._kept = bytearray()

    def __call__(self, line: str) -> None:
        """Add a line."""
        self._kept += line.encode(errors="replace") + b"\n"
        if len(self._kept) > 2 * self._limit:  # trim only now and then, not for each line
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """The last ``limit`` bytes of standard error, decoded."""
        return self._kept[-self._limit :].decode(errors="replace")


class HostedServer:
    """Server of a host. ``provider`` is its provider, or None until its configuration has been resolved.

    ``notify`` is called with the server and the changed lists, or with no lists if its status has changed. ``prepare``
    is called with the server and its new client, which is not connected yet.
    """

    def __init__(
        self,
        config: ServerConfig,
        options: ClientOptions,
        notify: Callable[[HostedServer, Sequence[ListName]], None],
        *,
        inputs: Inputs,
        start_timeout: float = PATIENCE,
        prepare: Callable[[HostedServer, Client], object] | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.provider: RemoteProvider | None = None
        self.entries = EntryReader(config.name)
        """Decoder for list entries, shared by all sessions with the server."""
        self._options = options
        self._notify = notify
        self._inputs = inputs
        self._prepare = prepare
        self._start_timeout = start_timeout if config.start_timeout is None else config.start_timeout
        self._stderr = StderrTail()
        self._resolved: ServerConfig | None = None
        self._failure: Exception | None = None
        self.opened_at: float | None = None
        """When connecting first began, in the time of the event loop; None before."""
        self._opening = asyncio.Lock()
        self._closed = False
        self._there = False
        self._lists: dict[ItemKind, tuple[Page[Any], float]] = {}
        self.long: set[ItemKind] = set()
        """Lists that are too long to be cached here; the provider caches their encoded pages."""
        self._reading: dict[ItemKind, asyncio.Task[tuple[Page[Any], float]]] = {}
        self._versions: dict[ListName, int] = {}

    def __repr__(self) -> str:
        return f"<HostedServer {self.name!r} {self.state}>"

    # How it is

    @property
    def state(self) -> ServerState:
        """State of the server."""
        if self._closed:
            return "closed"
        if self.config.disabled:
            return "disabled"
        if self._failure is not None:
            return "failed"
        if self.provider is None:
            return "connecting" if self._opening.locked() else "idle"
        name = self.provider.reconnector.status.name
        return "connecting" if name == "new" else name

    @property
    def error(self) -> Exception | None:
        """The error of the last attempt to connect; None if the server is connected."""
        return self._failure or (None if self.provider is None else self.provider.reconnector.status.reason)

    @property
    def resolved(self) -> ServerConfig | None:
        """The configuration with all variables replaced; None before the first attempt to connect."""
        return self._resolved

    @property
    def reason(self) -> str | None:
        """Why there is no connection, with the end of the server's standard error; None if it is connected."""
        error = self.error
        if error is None:
            return None
        said = "\n".join(dict.fromkeys(self.stderr[-SHOWN:].strip().split("\n")))  # drop repeats of restarts
        text = str(error).partition(STDERR_FOLLOWS)[0] or type(error).__name__
        return f"{text}\nIts standard error ends with:\n{said}" if said else text

    @property
    def cause(self) -> Cause | None:
        """Kind of the failure, without configuration values: see ``CAUSES``; None if it is connected."""
        return None if self.error is None else cause_of(self.error)

    @property
    def retry_in(self) -> float | None:
        """Seconds until the next attempt to reconnect, or None if none is scheduled."""
        retry_at = None if self.provider is None else self.provider.reconnector.status.retry_at
        return None if retry_at is None else max(0.0, retry_at - asyncio.get_running_loop().time())

    @property
    def stderr(self) -> str:
        """The last 64 KiB that the server has written to standard error."""
        return self._stderr.text

    @property
    def empty(self) -> bool:
        """Whether the server is connected, but has no resources, templates, tools, prompts or skills."""
        return self.state == "ready" and self.provider is not None and self.provider.empty

    @property
    def info(self) -> Implementation | None:
        """Name and version that the server reports; None before the first connection."""
        return None if not self._was_ready else self.client.server

    @property
    def revision(self) -> str | None:
        """Negotiated protocol revision; None before the first connection."""
        return None if not self._was_ready else self.client.revision

    @property
    def instructions(self) -> str | None:
        """Instructions of the server for the model; None before the first connection, or if it has none."""
        return None if not self._was_ready else self.client.instructions

    @property
    def _was_ready(self) -> bool:
        return self.provider is not None and self.provider.connected

    @property
    def client(self) -> Client:
        """The client for this server, for everything that the host has no method for.

        Raises:
            ConfigError: connecting to the server has not begun yet.
        """
        if self.provider is None:
            raise ConfigError(f"{self.name} has not been connected to yet")
        return self.provider.client

    # Connecting

    async def open(self, add: Callable[[RemoteProvider], None]) -> None:
        """Connect, and wait until the server is ready or has failed; ``add`` is called with the provider."""
        if self.config.disabled or self._closed:
            return
        async with self._opening:
            if self.provider is None and not self._closed:
                self._failure = None
                self.opened_at = self.opened_at or asyncio.get_running_loop().time()
                self._notify(self, ())
                try:
                    client = await self.new_client(**self._options)
                except MCPError as error:
                    self._failure = error
                    self._notify(self, ())
                    return
                if self._prepare is not None:
                    self._prepare(self, client)
                provider = RemoteProvider(
                    client, name=self.name, start_timeout=self._start_timeout, entries=self.entries
                )
                provider.reconnector.observers.append(self._observe)
                self.provider = provider
                add(provider)
                provider.begin(ReportedEvents(lambda _, lists, __: self.changed(tuple(lists))))
        if self.provider is not None:
            await self.provider.reconnector.settled()

    async def another_client(self, **changes: Unpack[ClientOptions]) -> Client:
        """Return a new client for a separate session with the server, with the same options except ``changes``."""
        options: ClientOptions = {**self._options, **changes}
        return await self.new_client(**options)

    async def new_client(self, **options: Unpack[ClientOptions]) -> Client:
        """Return a new, unopened client for a separate session with the server.

        The environment variables in ``process`` are added to the environment variables in the configuration, and its
        ``stderr`` replaces the log of standard error.

        Raises:
            ConfigError: the configuration is not valid, or a variable in it has no value.
        """
        if self._resolved is None:
            self._resolved = await resolve(self.config, inputs=self._inputs)
        config = self._resolved
        if config.timeout is not None:
            options["timeout"] = config.timeout
        if config.revision is not None:
            options["revision"] = config.revision
        if config.url is not None:
            options["process"] = None
            http = options.get("http") or HTTPOptions()
            options["http"] = msgspec.structs.replace(http, headers={**http.headers, **config.headers})
            return Client(config.url, **relaying(options))
        options["http"] = None
        given = options.pop("process", None) or ProcessOptions()
        if config.app is not None:
            return Client(config.app, **relaying(options))
        assert config.command is not None
        options["process"] = ProcessOptions(
            env={**config.env, **(given.env or {})},
            cwd=config.cwd,
            stderr=given.stderr or self._stderr,
            name=self.name,
        )
        return Client([config.command, *config.args], **relaying(options))

    async def ready(self) -> RemoteProvider:
        """Return the provider if the server is connected.

        Raises:
            TransportError: the server is not available; the message says why.
        """
        if self.provider is not None and self.state == "connecting":
            await self.provider.reconnector.settled()
        if self.provider is None or self.state != "ready":
            why = {"disabled": "it is disabled", "closed": "it is closed"}.get(self.state) or self.reason or self.state
            raise TransportError(f"{self.name} is not available: {why}", delivered=False)
        return self.provider

    def retry(self) -> None:
        """Reconnect now if the last attempt has failed."""
        self._failure = None
        if self.provider is not None:
            self.provider.reconnector.retry()

    def check(self) -> None:
        """Check the connection with a ping, after a request has failed."""
        if self.provider is not None:
            self.provider.reconnector.check()

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        for reading in list(self._reading.values()):
            reading.cancel()
        async with self._opening:
            if self.provider is not None:
                await self.provider.stop()

    def _observe(self, status: Status) -> None:
        there, self._there = self._there, status.name == "ready"
        if there and status.name == "failed":
            self.changed(list(LIST_NOTIFICATIONS))  # its entries are not available now
        self._notify(self, ())

    # Lists

    async def items(self, kind: ItemKind) -> Sequence[Any]:
        """Return all entries of a list, from the cache if possible.

        A cached list is valid until the server notifies of a change, or until its time to live has passed. If the time
        to live is 0, only notifications invalidate it.

        Raises:
            MCPError: the server is not available, or returns an error.
        """
        return (await self.page(kind)).items

    async def page(self, kind: ItemKind) -> Page[Any]:
        """Return all entries of a list as one page, with its cache scope and its remaining time to live.

        Raises:
            MCPError: the server is not available, or returns an error.
        """
        now = asyncio.get_running_loop().time
        kept = self._lists.get(kind)
        if kept is None or (kept[0].ttl and now() - kept[1] > kept[0].ttl):
            reading = self._reading.get(kind)
            if reading is None:  # otherwise, share the read that is in progress
                reading = self._reading[kind] = asyncio.ensure_future(self._read_list(kind))
                reading.add_done_callback(partial(self._end_reading, kind))
            kept = await asyncio.shield(reading)
        page, began = kept
        if not page.ttl:
            return page
        return msgspec.structs.replace(page, ttl=max(0.0, page.ttl - (now() - began)))

    async def _read_list(self, kind: ItemKind) -> tuple[Page[Any], float]:
        """Read a list, cache it unless it has changed meanwhile, and return it with the time when the read began."""
        provider = await self.ready()
        method, changed = LISTS[kind].provider_method, LIST_NAMES[kind]
        began = asyncio.get_running_loop().time()
        if not provider.offers(method):
            return Page(()), began
        version = self._versions.get(changed, 0)
        page = await whole_list(getattr(provider, method))
        if len(page.items) > LONG:
            self.long.add(kind)
        elif version == self._versions.get(changed, 0):
            self._lists[kind] = page, began
        return page, began

    def _end_reading(self, kind: ItemKind, reading: asyncio.Task[tuple[Page[Any], float]]) -> None:
        if self._reading.get(kind) is reading:
            del self._reading[kind]
        if not reading.cancelled():
            reading.exception()  # retrieve the exception: all waiting tasks may have been cancelled

    def _forget(self, lists: Sequence[ListName]) -> None:
        for name in lists:
            self._versions[name] = self._versions.get(name, 0) + 1
        for kind in LISTS:
            if LIST_NAMES[kind] in lists:
                self._lists.pop(kind, None)
                self._reading.pop(kind, None)  # later callers must not share a read that began before

    def changed(self, lists: Sequence[ListName]) -> None:
        """Invalidate changed lists, and report the change."""
        self._forget(lists)
        self._notify(self, lists)


async def whole_list(method: ListMethod[Any]) -> Page[Any]:
    """Return all pages of a list as one page, with the shortest time to live and the narrowest cache scope."""
    pages = list[Page[Any]]()

    async def noted(request: Request) -> Page[Any]:
        pages.append(await resolved(method(request)))
        return pages[-1]

    items = [item async for item in all_of(noted, limit=MAX_LISTED)]
    scopes = {page.scope for page in pages}
    scope: Literal["public", "private"] | None = "private" if "private" in scopes else None
    if scopes == {"public"}:
        scope = "public"
    return Page(items, None, min((page.ttl for page in pages if page.ttl is not None), default=None), scope)


def cause_of(error: Exception) -> Cause:
    """Return the kind of a failure to connect."""
    if isinstance(error, ConfigError):
        return "config"
    if isinstance(error, LoginRequired):
        return "login"
    if isinstance(error, AuthorizationError):
        return "authorization"
    if isinstance(error, RequestTimeout):
        return "timeout"
    if isinstance(error, TransportError):
        return "unreachable" if error.delivered is False else "lost"
    return "refused" if isinstance(error, PeerError) else "protocol"
