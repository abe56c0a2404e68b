"""IsolatedProvider: a remote server with one upstream session per client, or per principal, of a gateway.

    app.add_provider(IsolatedProvider(["python", "notes.py"], name="notes", isolation="client"))

Servers of revisions with a handshake may keep state per session. With ``shared``, all clients share one upstream
session; with ``client``, there is one per client session; with ``principal``, one per authenticated principal. ``auto``
means ``shared`` for stateless servers (2026-07-28), and ``client`` for all other servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.forwarding import ForwardingProvider
from carrel.catalog.provider import (
    Change,
    Events,
    Hit,
    Interest,
    ListChanges,
    Page,
    Recipients,
    ReportedEvents,
    Request,
)
from carrel.client.client import Client
from carrel.client.endpoints import Target
from carrel.client.options import ClientOptions
from carrel.errors import ConfigError, MCPError, ProviderUnavailable
from carrel.gateway.session_events import DefaultSessionOwner, log_to
from carrel.gateway.sessions import AllInterest, Mode, SessionLimits, UpstreamSession, UpstreamSessions, key_of
from carrel.host.reconnect import Status
from carrel.host.relayed import RELAYED, RELAYED_EXTENSIONS
from carrel.host.remote import LIST_PATIENCE, PATIENCE, RemoteProvider
from carrel.host.remote_tools import asks_for_task, call_or_task
from carrel.log import Log
from carrel.protocol.methods import READ_RESOURCE, RequestType
from carrel.protocol.passed_results import with_members
from carrel.wire.base import PageResult, Result
from carrel.wire.resources import ReadResourceResult
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.host.config.server_config import Isolation
    from carrel.protocol.principal import Principal

__all__ = ["Connect", "IsolatedProvider"]

log = Log("carrel.gateway")

T = TypeVar("T")
#: Returns an unopened client for the upstream, with the credentials of a principal.
Connect = Callable[["Principal | None"], Awaitable[Client]]


class IsolatedProvider(ForwardingProvider):
    """Provider for a remote server, with one upstream session per isolation key.

    If ``isolation`` is "shared", all clients use the default session. Otherwise, the default session handles requests
    without a client, and the first client takes it as its session, unless the callers have ``separate_credentials``.
    ``default`` is the provider with the default session, if a host has one; ``connect`` then returns the clients for
    additional sessions. Without it, ``target`` and ``options`` are passed to ``RemoteProvider``.

    Raises:
        ConfigError: an option is not valid.
    """

    extensions = RELAYED_EXTENSIONS

    def __init__(
        self,
        target: Target | None = None,
        *,
        name: str | None = None,
        isolation: Isolation = "auto",
        limits: SessionLimits = SessionLimits(),  # noqa: B008
        default: RemoteProvider | None = None,
        connect: Connect | None = None,
        separate_credentials: bool = False,
        start_timeout: float = PATIENCE,
        **options: Unpack[ClientOptions],
    ) -> None:
        if (target is None) == (default is None) or (default is not None and connect is None):
            raise ConfigError("give the target of a server, or a default provider and how to connect")
        if separate_credentials and isolation == "shared":
            raise ConfigError(f"{name}: callers have their own credentials, so they cannot share a session")
        options.setdefault("handlers", RELAYED)
        self._owns_default = default is None
        if default is None:
            assert target is not None
            default = RemoteProvider(target, name=name, start_timeout=start_timeout, **options)
        if connect is None:
            connect = _connector(target, options)
        self.default = default
        self.name = name or default.name
        self.sessions = UpstreamSessions(self.name, limits, self._open, self._close)
        """Sessions of clients or principals. The first one may use the default session."""
        self.tool_names: Container[str] = _Any(self, lambda provider: provider.tool_names)
        self.prompt_names: Container[str] = _Any(self, lambda provider: provider.prompt_names)
        self.exact: Container[str] = _Any(self, lambda provider: provider.exact)
        self._isolation = isolation
        self._connect = connect
        self.learned: Callable[[RemoteProvider], object] | None = None
        """Callback for when the lists of a session have been read."""
        self.separate_credentials = separate_credentials
        """Whether each caller has separate credentials."""
        self._start_timeout = start_timeout
        self._events: Events | None = None
        self._interest: Interest | None = None
        self.default_owner: UpstreamSession | None = None
        """Client session that uses the default session."""
        self.default_free = not separate_credentials
        self._default_following: asyncio.Task[None] | None = None
        self._decided = asyncio.Event()

    def __repr__(self) -> str:
        return f"IsolatedProvider({self.name!r}, {self._isolation!r})"

    @property
    def mode(self) -> Mode | None:
        """How sessions are isolated; None if this depends on a server that has not been connected to yet."""
        if self._isolation == "client" or self._isolation == "principal":
            return self._isolation
        if self.separate_credentials:
            return "client" if self._isolation == "auto" else "principal"
        if self._isolation == "shared":
            return "shared"
        if not self.default.connected:
            return None
        return "shared" if self.default.client.session.stateless else "client"

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether ``shows`` is called before each subscription, to open the session that reports the changes."""
        return self.mode != "shared"

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether this provider handles URIs that match no provider."""
        return self.offers("read_resource")

    def providers(self) -> Iterable[RemoteProvider]:
        """Return the provider of each session, the default session first."""
        yield self.default
        for session in self.sessions:
            if session.provider is not None and session.provider is not self.default:
                yield session.provider

    def offers(self, method: str) -> bool:
        """Return whether the server has the capability for a method, in any session."""
        return any(provider.offers(method) for provider in self.providers())

    # Starting and stopping

    async def start(self, events: Events) -> None:
        """Connect to the server, and read its lists.

        Raises:
            ConfigError: the server rejects the connection, or its program is not installed.
        """
        self.begin(events)
        if self._owns_default:
            await self.default.start(ReportedEvents(self._publish_default))

    def begin(self, events: Events) -> None:
        """Start with a default session that a host starts and stops."""
        self._events = events
        self.default.reconnector.observers.append(self._observe)
        self._observe(self.default.reconnector.status)

    async def stop(self) -> None:
        """Close all sessions."""
        self._events = None
        self._interest = None
        if self._observe in self.default.reconnector.observers:
            self.default.reconnector.observers.remove(self._observe)
        if self._default_following is not None:
            self._default_following.cancel()
            await asyncio.gather(self._default_following, return_exceptions=True)
        await self.sessions.stop()
        if self._owns_default:
            await self.default.stop()

    def _observe(self, status: Status) -> None:
        if self.mode is not None:
            self._decided.set()
        if status.name == "failed":
            self.default_free = (
                not self.separate_credentials and self.default_owner is None
            )  # a reconnect opens a new session

    def _publish_default(self, changes: Iterable[Change], lists: ListChanges, _: Recipients | None) -> None:
        """Report changes of the default session: to all clients if it is shared or new, else to its owner."""
        if self._events is None:
            return
        mode = self.mode
        if mode == "shared" or mode is None or len(lists) > 1:
            self._events.publish(changes, lists)
        else:
            self._events.publish(
                changes, lists, DefaultSessionOwner(None if self.default_owner is None else self.default_owner.key)
            )

    def publish_session(
        self, session: UpstreamSession, changes: Iterable[Change], lists: ListChanges, _: Recipients | None = None
    ) -> None:
        """Report changes of a session to its owner."""
        if lists and self.learned is not None and session.provider is not None:
            self.learned(session.provider)
        if self._events is not None and session.is_open:
            self._events.publish(changes, lists, session.key)

    # Sessions

    async def _open(self, session: UpstreamSession, principal: Principal | None) -> None:
        """Connect a session, and read its lists. The status of its provider tells whether this has failed."""
        if self.default_free and self.default.reconnector.status.name == "ready":
            self.default_free = False
            self.default_owner = session
            session.provider = self.default
        else:
            client = await self._connect(principal)
            provider = RemoteProvider(
                client, name=self.name, start_timeout=self._start_timeout, entries=self.default.entries
            )
            session.provider = provider
            self.opening(session, provider, principal)
            provider.begin(ReportedEvents(partial(self.publish_session, session)))
            await provider.reconnector.settled()
        session.provider.reserve()
        log_to(session.provider, session.log if session.key.client is not None else None)
        session.is_open = True
        if self._interest is not None:
            self._follow(session)

    def opening(self, session: UpstreamSession, provider: RemoteProvider, principal: Principal | None) -> None:
        """Hook for subclasses, called before a session is connected."""

    async def _close(self, session: UpstreamSession) -> None:
        provider = session.provider
        if session.forget is not None:
            session.forget()
        if provider is self.default:
            self.default_owner = None  # no other client may see the server's state for this session
            log_to(self.default, None)
        elif provider is not None:
            await provider.stop()

    async def _enter(self, request: Request) -> UpstreamSession | None:
        """Acquire the session for a request, or None for the shared session. ``_leave`` releases it.

        Raises:
            ServerUnavailable: there are too many sessions.
            MCPError: the session cannot be opened.
        """
        mode = self.mode
        if mode is None:
            await self.default.reconnector.settled()
            mode = self.mode
        call = request.call
        if call is None or mode is None or mode == "shared":
            return None
        key = key_of(mode, call.principal, call.client, call.connection)
        if key.client is not None and key.client.closed:
            raise asyncio.CancelledError  # nothing would close the session
        session = self.sessions.enter(key, call.principal)
        if not session.is_open:
            assert session.opening is not None
            try:
                await asyncio.shield(session.opening)
            except BaseException:
                self.sessions.leave(session)
                raise
        return session

    def _leave(self, session: UpstreamSession | None) -> None:
        if session is not None:
            self.sessions.leave(session)

    @asynccontextmanager
    async def session(self, request: Request) -> AsyncIterator[UpstreamSession | None]:
        """Yield the session for a request, or None for the shared session.

        Raises:
            MCPError: the session cannot be opened.
        """
        session = await self._enter(request)
        try:
            yield session
        finally:
            self._leave(session)

    async def _ask(self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]]) -> T:
        mode = self.mode
        if mode == "shared":
            return await ask(self.default, request)
        session = self._enter_open(mode, request) or await self._enter(request)
        try:
            return await ask(self._provider(session), request)
        finally:
            self._leave(session)

    def _enter_open(self, mode: Mode | None, request: Request) -> UpstreamSession | None:
        """Acquire the session for a request if it is open already, as ``_enter`` does; otherwise return None."""
        call = request.call
        if call is None or mode is None:
            return None
        key = key_of(mode, call.principal, call.client, call.connection)
        session = self.sessions.open_session(key)
        if session is None or (key.client is not None and key.client.closed):
            return None
        session.users += 1
        return session

    def _provider(self, session: UpstreamSession | None) -> RemoteProvider:
        if session is None:
            return self.default
        assert session.provider is not None
        return session.provider

    def serve(
        self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]], *, repeatable: bool = True
    ) -> Coroutine[Any, Any, T]:
        """Return the response to a request, sent in its session; ``repeatable``: the request is safe to retry."""
        return self._ask(request, ask)

    async def _list(self, request: Request, method: str, *arguments: Any) -> Page[Any]:
        """Return a page of a list in the session of a request. Its cursors are valid in this session only."""
        try:
            async with asyncio.timeout(LIST_PATIENCE):
                session = await self._enter(request)
        except TimeoutError:
            raise ProviderUnavailable(self.name) from None  # do not delay the lists of other servers
        try:
            provider = self._provider(session)
            if session is None:
                page: Page[Any] = await getattr(provider, method)(*arguments, request)
                return page
            part = request.page(session.cursor_in(request.cursor), request.limit)
            page = await getattr(provider, method)(*arguments, part)
            return msgspec.structs.replace(page, next_cursor=session.cursor_out(page.next_cursor), scope="private")
        finally:
            self._leave(session)

    # Requests

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> Awaitable[Any]:
        """Pass a request on in the session of its client."""
        if issubclass(row.result, PageResult):
            return self._list(request, row.provider_method, *arguments)

        def ask(provider: RemoteProvider, inner: Request) -> Awaitable[Any]:
            pending: Awaitable[Any] = getattr(provider, row.provider_method)(*arguments, inner)
            return pending

        return self.serve(request, ask) if row.asks else self._ask(request, ask)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult | bytes:
        """Return the contents of a resource. Unless the session is shared, their cache scope is always private."""
        result: ReadResourceResult | bytes = await self.forward(READ_RESOURCE, request, uri)
        if self.mode == "shared":
            return result
        if isinstance(result, ReadResourceResult):
            return msgspec.structs.replace(result, cache_scope="private")
        assert request.call is not None
        stateless = request.call.peer.revision.stateless
        return with_members(result, {"cacheScope": "private"}) if stateless else result

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources with the query in their title, name or URI."""
        return await self._list(request, "search", query)

    async def shows(self, uri: str, request: Request) -> bool:
        """Return True, and open the session that reports changes to the subscriber."""
        try:
            async with self.session(request):
                return True
        except MCPError as error:
            log.warning("%s: changes of its resources are not known to a client: %s", self.name, error)
            return True

    def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool, and return its result, or a result with its task.

        The session stays in use until the task has ended.
        """
        tasks = self.default.tasks_of(name)
        for session in self.sessions if tasks is None else ():
            if session.provider is not None and session.provider is not self.default:
                tasks = tasks or session.provider.tasks_of(name)
        if tasks is None and not asks_for_task(request):
            return self.run_tool(name, arguments, request)
        return call_or_task(request, tasks, lambda inner: self.run_tool(name, arguments, inner))

    def run_tool(
        self, name: str, arguments: msgspec.Raw, request: Request
    ) -> Coroutine[Any, Any, CallToolResult | bytes]:
        """Call a tool, and return its result. The request may have become a task: see ``call_or_task``."""
        return self.serve(request, lambda one, inner: one.run_tool(name, arguments, inner), repeatable=False)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of the shared session. Changes of other sessions are reported to their owners as events."""
        await self._decided.wait()
        self._interest = interest
        shared = AllInterest(interest)
        if self.mode == "shared":
            listens = asyncio.Event()
            self._default_following = asyncio.ensure_future(self._follow_default(shared, listens))
            await listens.wait()
        for session in self.sessions:
            if session.is_open:
                self._follow(session)
        yield ()
        while True:
            await interest.wait()
            _ = interest.uris  # transforms update their copy of the subscriptions when this is read
            shared.notify()
            for session in self.sessions:
                if session.interest is not None:
                    session.interest.notify()

    async def _follow_default(self, interest: Interest, listens: asyncio.Event) -> None:
        """Report the changes of the shared session to all clients."""
        try:
            async for batch in self.default.watch(interest):
                listens.set()
                if batch and self._events is not None:
                    self._events.publish(batch)
        finally:
            listens.set()

    def _follow(self, session: UpstreamSession) -> None:
        """Report the changes of a session to its owner."""
        assert self._interest is not None
        session.interest = _interest = session.interest_in(self._interest)
        provider = self._provider(session)

        async def follow() -> None:
            async for batch in provider.watch(_interest):
                if batch:
                    self.publish_session(session, batch, {})

        session.following = asyncio.ensure_future(follow())


def _connector(target: Target | None, options: ClientOptions) -> Connect:
    async def connect(principal: Principal | None) -> Client:
        assert target is not None
        return Client(target, **options)

    return connect


class _Any(Container[str]):
    """Names or URIs that a server has in at least one session."""

    def __init__(self, isolated: IsolatedProvider, names_of: Callable[[RemoteProvider], Container[str]]) -> None:
        self._isolated = isolated
        self._names_of = names_of

    def __contains__(self, name: object) -> bool:
        return any(name in self._names_of(provider) for provider in self._isolated.providers())
