"""HostedServer: one server of a host: its configuration, state, standard error, and lists, which are kept fresh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

import msgspec

from carrel.catalog.paging import ListMethod, all_of, resolved
from carrel.catalog.provider import Change, ListChanges, ListName, Page, Recipients, Request
from carrel.client.client import Client
from carrel.client.options import ClientOptions
from carrel.errors import AuthorizationError, ConfigError, LoginRequired, MCPError, PeerError, TransportError
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ServerConfig
from carrel.host.config.variables import resolve
from carrel.host.relayed import relaying
from carrel.host.remote import MAX_LISTED, PATIENCE, RemoteProvider
from carrel.host.upkeep import Status
from carrel.log import Log
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.transports.client.transport import STDERR_FOLLOWS
from carrel.wire.base import Implementation

__all__ = ["ALL_LISTS", "HostedServer", "ListKind", "ServerState", "StderrTail"]

log = Log("carrel.host")

#: "idle": not connected to yet, as nothing of it was asked for. "failed": see ``reason`` and ``retry_in``.
ServerState: TypeAlias = Literal["disabled", "idle", "connecting", "ready", "failed", "closed"]
ListKind: TypeAlias = Literal["resources", "templates", "tools", "prompts", "skills"]

#: How much of standard error is kept, in bytes.
KEPT = 64 * 1024
#: How much of it is shown with a failure, in characters.
SHOWN = 2000
#: Lists of a server: the method of a provider, and the notification after which it is read again.
LISTS: Mapping[ListKind, tuple[str, ListName]] = {
    "resources": ("list_resources", "resources_list_changed"),
    "templates": ("list_templates", "resources_list_changed"),
    "tools": ("list_tools", "tools_list_changed"),
    "prompts": ("list_prompts", "prompts_list_changed"),
    "skills": ("list_skills", "resources_list_changed"),
}
ALL_LISTS: Sequence[ListName] = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")


class StderrTail:
    """The last ``limit`` bytes of what a server has written on standard error, over all of its processes."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._kept = bytearray()

    def __call__(self, line: str) -> None:
        """Add a line."""
        self._kept += line.encode(errors="replace") + b"\n"
        if len(self._kept) > 2 * self._limit:  # cut now and then, not for each line of a flood
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """Last output of the server that is kept."""
        return self._kept[-self._limit :].decode(errors="replace")


class HostedServer:
    """Server of a host. ``provider`` offers what it has; None until its configuration has been resolved.

    ``announce`` is called with the server and what has changed: its status, or lists.
    """

    def __init__(
        self,
        config: ServerConfig,
        options: ClientOptions,
        announce: Callable[[HostedServer, Sequence[ListName]], None],
        *,
        inputs: Inputs,
        start_timeout: float = PATIENCE,
    ) -> None:
        self.config = config
        self.name = config.name
        self.provider: RemoteProvider | None = None
        self._options = options
        self._announce = announce
        self._inputs = inputs
        self._start_timeout = start_timeout if config.start_timeout is None else config.start_timeout
        self._stderr = StderrTail()
        self._resolved: ServerConfig | None = None
        self._failure: Exception | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._there = False
        self._lists: dict[ListKind, tuple[Page[Any], float]] = {}
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
        name = self.provider.upkeep.status.name
        return "connecting" if name == "new" else name

    @property
    def reason(self) -> str | None:
        """Why there is no connection, with the end of what the server wrote on standard error; None if there is one."""
        error = self._failure or (None if self.provider is None else self.provider.upkeep.status.reason)
        if error is None:
            return None
        said = "\n".join(dict.fromkeys(self.stderr[-SHOWN:].strip().split("\n")))  # it may have been started often
        text = str(error).partition(STDERR_FOLLOWS)[0] or type(error).__name__
        return f"{text}\nIts standard error ends with:\n{said}" if said else text

    @property
    def cause(self) -> str | None:
        """Why there is no connection, in few words that hold nothing of its configuration; None if there is one."""
        error = self._failure or (None if self.provider is None else self.provider.upkeep.status.reason)
        return None if error is None else cause_of(error)

    @property
    def retry_in(self) -> float | None:
        """Seconds until it is connected to again; None if that is not going to happen by itself."""
        retry_at = None if self.provider is None else self.provider.upkeep.status.retry_at
        return None if retry_at is None else max(0.0, retry_at - asyncio.get_running_loop().time())

    @property
    def stderr(self) -> str:
        """The last 64 KiB of what it has written on standard error."""
        return self._stderr.text

    @property
    def empty(self) -> bool:
        """Whether it is connected and offers nothing: no resources, templates, tools, prompts or skills."""
        return self.state == "ready" and self.provider is not None and self.provider.empty

    @property
    def info(self) -> Implementation | None:
        """Name and version as the server declares them; None before the first connection."""
        return None if not self._was_ready else self.client.server

    @property
    def revision(self) -> str | None:
        """Revision that was negotiated; None before the first connection."""
        return None if not self._was_ready else self.client.revision

    @property
    def instructions(self) -> str | None:
        """Its instructions for a model."""
        return None if not self._was_ready else self.client.instructions

    @property
    def _was_ready(self) -> bool:
        return self.provider is not None and self.provider.connected

    @property
    def client(self) -> Client:
        """The client, for what the host has no method for.

        Raises:
            ConfigError: the server has not been connected to yet.
        """
        if self.provider is None:
            raise ConfigError(f"{self.name} has not been connected to yet")
        return self.provider.client

    # Connecting

    async def open(self, add: Callable[[RemoteProvider], None]) -> None:
        """Begin to connect, and wait until that has succeeded or failed; ``add`` gets the provider."""
        if self.config.disabled or self._closed:
            return
        async with self._opening:
            if self.provider is None and not self._closed:
                self._failure = None
                self._announce(self, ())
                try:
                    client = await self.new_client(**self._options)
                except MCPError as error:
                    self._failure = error
                    self._announce(self, ())
                    return
                provider = RemoteProvider(client, name=self.name, start_timeout=self._start_timeout)
                provider.upkeep.observers.append(self._observe)
                self.provider = provider
                add(provider)
                provider.begin(_Events(self))
        if self.provider is not None:
            await self.provider.upkeep.settled()

    async def another_client(self) -> Client:
        """Return another client of the server, with the same options: a session of its own. See ``new_client``."""
        return await self.new_client(**self._options)

    async def new_client(self, **options: Unpack[ClientOptions]) -> Client:
        """Return another client of the server, not open yet: a session of its own.

        The environment variables of ``process`` are added to those of the configuration.

        Raises:
            ConfigError: the configuration is not valid, or a variable in it has no value.
        """
        if self._resolved is None:
            self._resolved = await resolve(self.config, inputs=self._inputs)
        config = self._resolved
        if config.timeout is not None:
            options["timeout"] = config.timeout
        if config.url is not None:
            http = options.get("http") or HTTPOptions()
            options["http"] = msgspec.structs.replace(http, headers={**http.headers, **config.headers})
            return Client(config.url, **relaying(options))
        assert config.command is not None
        options["http"] = None
        given = options.get("process")
        env = {**config.env, **((given.env if given is not None else None) or {})}
        options["process"] = ProcessOptions(env=env, cwd=config.cwd, stderr=self._stderr, name=self.name)
        return Client([config.command, *config.args], **relaying(options))

    async def ready(self) -> RemoteProvider:
        """Return the provider of a server that is connected.

        Raises:
            TransportError: it is not available; the message says why.
        """
        if self.provider is not None and self.state == "connecting":
            await self.provider.upkeep.settled()
        if self.provider is None or self.state != "ready":
            why = {"disabled": "it is disabled", "closed": "it is closed"}.get(self.state) or self.reason or self.state
            raise TransportError(f"{self.name} is not available: {why}", delivered=False)
        return self.provider

    def retry(self) -> None:
        """Try to connect again now, if it is failed."""
        self._failure = None
        if self.provider is not None:
            self.provider.upkeep.retry()

    def check(self) -> None:
        """Find out whether the server still answers, as a request has failed."""
        if self.provider is not None:
            self.provider.upkeep.check()

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        async with self._opening:
            if self.provider is not None:
                await self.provider.stop()

    def _observe(self, status: Status) -> None:
        there, self._there = self._there, status.name == "ready"
        if there and status.name == "failed":
            self.changed(ALL_LISTS)  # what it has is gone for now
        self._announce(self, ())

    # Lists

    async def items(self, kind: ListKind) -> Sequence[Any]:
        """Return all entries of a list, from memory while the server has not announced a change and their time to live
        has not ended (one of 0 leaves that to the announcements).

        Raises:
            MCPError: the server is not available, or refuses.
        """
        return (await self.page(kind)).items

    async def page(self, kind: ListKind) -> Page[Any]:
        """Return all entries of a list as one page, with its scope, and the time for which it may still be kept.

        Raises:
            MCPError: the server is not available, or refuses.
        """
        now = asyncio.get_running_loop().time()
        page, began = self._lists.get(kind, (None, now))
        if page is None or (page.ttl and now - began > page.ttl):
            provider = await self.ready()
            method, changed = LISTS[kind]
            if not provider.offers(method):
                return Page(())
            began = asyncio.get_running_loop().time()
            version = self._versions.get(changed, 0)
            page = await whole_list(getattr(provider, method))
            if version == self._versions.get(changed, 0):
                self._lists[kind] = page, began
        if not page.ttl:
            return page
        return msgspec.structs.replace(page, ttl=max(0.0, page.ttl - (asyncio.get_running_loop().time() - began)))

    def _forget(self, lists: Sequence[ListName]) -> None:
        for name in lists:
            self._versions[name] = self._versions.get(name, 0) + 1
        for kind in [kind for kind in self._lists if LISTS[kind][1] in lists]:
            del self._lists[kind]

    def changed(self, lists: Sequence[ListName]) -> None:
        """Record lists that have changed."""
        self._forget(lists)
        self._announce(self, lists)


async def whole_list(method: ListMethod[Any]) -> Page[Any]:
    """Return all pages of a list as one: for the shortest of their times, with the narrowest of their scopes."""
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


def cause_of(error: Exception) -> str:
    """Return what went wrong with a server, without its command, URL, variables, output and answers."""
    if isinstance(error, ConfigError):
        return "it is not set up correctly; the log says more"
    if isinstance(error, LoginRequired):
        return "its users log in, each for themselves"
    if isinstance(error, AuthorizationError):
        return "it wants a login, or did not accept the credentials"
    if isinstance(error, TransportError):
        return (
            "it cannot be reached, or its program has ended"
            if error.delivered is False
            else "the connection was lost, or its program has ended"
        )
    if isinstance(error, PeerError):
        return "it refuses"
    return "it does not answer as the protocol says"


class _Events:
    """Events of the provider of a hosted server."""

    def __init__(self, server: HostedServer) -> None:
        self._server = server

    def publish(
        self,
        changes: Iterable[Change] = (),
        lists: Iterable[ListName] | ListChanges = (),
        recipients: Recipients | None = None,
    ) -> None:
        """Report which lists have changed."""
        self._server.changed(tuple(lists))
