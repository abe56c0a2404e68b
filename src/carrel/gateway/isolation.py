"""IsolatedProvider: a remote server with a session of its own for each client, or each principal, of a gateway.

    app.add_provider(IsolatedProvider(["python", "notes.py"], name="notes", isolation="client"))

Servers of the revisions with a handshake may keep state per session. With ``shared``, all clients have one session;
with ``client``, each session of a client has its own; with ``principal``, each authenticated principal. ``auto`` is
``shared`` for stateless servers (2026-07-28), and ``client`` for all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from carrel.catalog.provider import (
    Change,
    Events,
    Hit,
    Interest,
    ListChanges,
    Page,
    Provider,
    Request,
)
from carrel.client.client import Client
from carrel.client.endpoints import Target
from carrel.client.options import ClientOptions
from carrel.errors import ConfigError, MCPError, ProviderUnavailable
from carrel.gateway.session_events import BaseOwner, SessionEvents, log_to
from carrel.gateway.sessions import AllInterest, Mode, SessionLimits, UpstreamSession, UpstreamSessions, key_of
from carrel.host.relayed import RELAYED
from carrel.host.remote import LIST_PATIENCE, PATIENCE, RemoteProvider
from carrel.host.upkeep import Status
from carrel.log import Log
from carrel.protocol.connection import State
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.skills import Skill
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.host.config.server_config import Isolation
    from carrel.protocol.principal import Principal

__all__ = ["Connect", "IsolatedProvider"]

log = Log("carrel.gateway")

T = TypeVar("T")
#: Returns a client of the upstream, not open yet, with the credentials of a principal.
Connect = Callable[["Principal | None"], Awaitable[Client]]


class IsolatedProvider(Provider):
    """Provider of what a remote server offers, in a session for each of those that ``isolation`` keeps apart.

    The session of ``base`` is shared with ``isolation="shared"``. Else it says what the server has, for requests of no
    client; and the first client to come gets it as its own, unless ``personal`` says that sessions differ by their
    credentials. ``target`` and ``options`` are those of ``RemoteProvider``, for a server that is not behind a host;
    with ``base``, ``connect`` returns the clients of further sessions.

    Raises:
        ConfigError: an option is not valid.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        name: str | None = None,
        isolation: Isolation = "auto",
        limits: SessionLimits = SessionLimits(),  # noqa: B008
        base: RemoteProvider | None = None,
        connect: Connect | None = None,
        personal: bool = False,
        start_timeout: float = PATIENCE,
        **options: Unpack[ClientOptions],
    ) -> None:
        if (target is None) == (base is None) or (base is not None and connect is None):
            raise ConfigError("give the target of a server, or a base and how to connect")
        if personal and isolation == "shared":
            raise ConfigError(f"{name}: callers have credentials of their own, so that they cannot share a session")
        options.setdefault("handlers", RELAYED)
        self._owns_base = base is None
        if base is None:
            assert target is not None
            base = RemoteProvider(target, name=name, start_timeout=start_timeout, **options)
        if connect is None:
            connect = _connector(target, options)
        self.base = base
        self.name = name or base.name
        self.sessions = UpstreamSessions(self.name, limits, self._open, self._close)
        """Sessions besides that of ``base``."""
        self.tool_names: Container[str] = _Any(self, lambda provider: provider.tool_names)
        self.prompt_names: Container[str] = _Any(self, lambda provider: provider.prompt_names)
        self.exact: Container[str] = _Any(self, lambda provider: provider.exact)
        self._isolation = isolation
        self._connect = connect
        self.learned: Callable[[RemoteProvider], object] | None = None
        """Called when the provider of a session has learned what the server has there."""
        self.personal = personal
        """Whether callers have credentials of their own."""
        self._start_timeout = start_timeout
        self._events: Events | None = None
        self._interest: Interest | None = None
        self.adopted: UpstreamSession | None = None
        self.adoptable = not personal
        self._base_following: asyncio.Task[None] | None = None
        self._decided = asyncio.Event()

    def __repr__(self) -> str:
        return f"IsolatedProvider({self.name!r}, {self._isolation!r})"

    @property
    def mode(self) -> Mode | None:
        """How sessions are kept apart; None while that depends on a server that has not been reached yet."""
        if self._isolation == "client" or self._isolation == "principal":
            return self._isolation
        if self.personal:
            return "client" if self._isolation == "auto" else "principal"
        if self._isolation == "shared":
            return "shared"
        if not self.base.connected:
            return None
        return "shared" if self.base.client.session.stateless else "client"

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether ``shows`` is asked before a subscription: it opens the session that the changes come from."""
        return self.mode != "shared"

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether it is asked for URIs of no provider."""
        return self.offers("read_resource")

    def providers(self) -> Iterable[RemoteProvider]:
        """Return the provider of each session, that of ``base`` first."""
        yield self.base
        for session in self.sessions:
            if session.provider is not None and session.provider is not self.base:
                yield session.provider

    def offers(self, method: str) -> bool:
        """Return whether the server offers what a method needs."""
        return any(provider.offers(method) for provider in self.providers())

    # Starting and stopping

    async def start(self, events: Events) -> None:
        """Connect to the server, and learn what it has.

        Raises:
            ConfigError: it refuses, or its program is not installed.
        """
        self.begin(events)
        if self._owns_base:
            await self.base.start(SessionEvents(self._publish_base))

    def begin(self, events: Events) -> None:
        """Begin, with a ``base`` that a host starts and stops."""
        self._events = events
        self.base.upkeep.observers.append(self._observe)
        self._observe(self.base.upkeep.status)

    async def stop(self) -> None:
        """Close all sessions."""
        self._events = None
        self._interest = None
        if self._observe in self.base.upkeep.observers:
            self.base.upkeep.observers.remove(self._observe)
        if self._base_following is not None:
            self._base_following.cancel()
            await asyncio.gather(self._base_following, return_exceptions=True)
        await self.sessions.stop()
        if self._owns_base:
            await self.base.stop()

    def _observe(self, status: Status) -> None:
        if self.mode is not None:
            self._decided.set()
        if status.name == "failed":
            self.adoptable = not self.personal and self.adopted is None  # its next session is a new one

    def _publish_base(self, changes: Iterable[Change], lists: ListChanges) -> None:
        """Report changes of ``base``: to all where it is shared or was connected, else to its owner."""
        if self._events is None:
            return
        mode = self.mode
        if mode == "shared" or mode is None or len(lists) > 1:
            self._events.publish(changes, lists)
        else:
            self._events.publish(changes, lists, BaseOwner(None if self.adopted is None else self.adopted.key))

    def publish_session(self, session: UpstreamSession, changes: Iterable[Change], lists: ListChanges) -> None:
        """Report changes that a session has brought, to its owner."""
        if lists and self.learned is not None and session.provider is not None:
            self.learned(session.provider)
        if self._events is not None and session.is_open:
            self._events.publish(changes, lists, session.key)

    # Sessions

    async def _open(self, session: UpstreamSession, principal: Principal | None) -> None:
        """Connect a session, and learn what the server has in it. Whether that has failed, its provider says."""
        if self.adoptable and self.base.upkeep.status.name == "ready":
            self.adoptable = False
            self.adopted = session
            session.provider = self.base
        else:
            client = await self._connect(principal)
            provider = RemoteProvider(client, name=self.name, start_timeout=self._start_timeout)
            session.provider = provider
            self.opening(session, provider, principal)
            provider.begin(SessionEvents(partial(self.publish_session, session)))
            await provider.upkeep.settled()
        log_to(session.provider, session.log if session.key.connection is not None else None)
        session.is_open = True
        if self._interest is not None:
            self._follow(session)

    def opening(self, session: UpstreamSession, provider: RemoteProvider, principal: Principal | None) -> None:
        """Do what a subclass has to do before a session is connected."""

    async def _close(self, session: UpstreamSession) -> None:
        provider = session.provider
        if session.forget is not None:
            session.forget()
        if provider is self.base:
            self.adopted = None  # what the server keeps for this session is of no other client
            log_to(self.base, None)
        elif provider is not None:
            await provider.stop()

    async def _enter(self, request: Request) -> UpstreamSession | None:
        """Return the session for a request, until ``_leave``; None for the shared one.

        Raises:
            ServerUnavailable: there are too many sessions.
            MCPError: it cannot be opened.
        """
        mode = self.mode
        if mode is None:
            await self.base.upkeep.settled()
            mode = self.mode
        call = request.call
        if call is None or mode is None or mode == "shared":
            return None
        key = key_of(mode, call.principal, call.connection)
        if key.connection is not None and key.connection.state is State.CLOSED:
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
        """Give the session for a request; None for the shared one.

        Raises:
            MCPError: it cannot be opened.
        """
        session = await self._enter(request)
        try:
            yield session
        finally:
            self._leave(session)

    async def _ask(self, request: Request, ask: Callable[[RemoteProvider], Awaitable[T]]) -> T:
        if self.mode == "shared":
            return await ask(self.base)
        session = await self._enter(request)
        try:
            return await ask(self._provider(session))
        finally:
            self._leave(session)

    def _provider(self, session: UpstreamSession | None) -> RemoteProvider:
        if session is None:
            return self.base
        assert session.provider is not None
        return session.provider

    async def serve(
        self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]], *, repeatable: bool = True
    ) -> T:
        """Return the answer to a request, in the session for it; ``repeatable``: handling it twice does no harm."""
        return await self._ask(request, lambda provider: ask(provider, request))

    async def _list(self, request: Request, method: str, *arguments: Any) -> Page[Any]:
        """Return a page of a list in the session of a request. Its cursors are of use in no other session."""
        try:
            async with asyncio.timeout(LIST_PATIENCE):
                session = await self._enter(request)
        except TimeoutError:
            raise ProviderUnavailable(self.name) from None  # lists of others do not wait for it
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

    # Resources

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the server's resources."""
        return await self._list(request, "list_resources")

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the server's resource templates."""
        return await self._list(request, "list_templates")

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a resource. Caches must not give them to other callers, whatever the server says."""
        result = await self.serve(request, lambda one, inner: one.read_resource(uri, inner))
        return result if self.mode == "shared" else msgspec.structs.replace(result, cache_scope="private")

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the resources in a directory."""
        return await self._list(request, "list_directory", uri)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources with the query in their title, name or URI."""
        return await self._list(request, "search", query)

    async def shows(self, uri: str, request: Request) -> bool:
        """Return True, and open the session from which a subscriber gets the changes."""
        try:
            async with self.session(request):
                return True
        except MCPError as error:
            log.warning("%s: changes of its resources are not known to a client: %s", self.name, error)
            return True

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return the server's suggestions."""
        return await self._ask(request, lambda one: one.complete(reference, argument, value, context, request))

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of the server's skills."""
        return await self._list(request, "list_skills")

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return the skill whose SKILL.md has this URI."""
        return await self._ask(request, lambda one: one.get_skill(uri, request))

    # Tools and prompts

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the server's tools."""
        return await self._list(request, "list_tools")

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult | msgspec.Struct:
        """Call a tool, and return its result."""
        return await self.serve(request, lambda one, inner: one.call_tool(name, arguments, inner), repeatable=False)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of the server's prompts."""
        return await self._list(request, "list_prompts")

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> GetPromptResult:
        """Return the messages of a prompt."""
        return await self.serve(request, lambda one, inner: one.get_prompt(name, arguments, inner))

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of the shared session; those of the others are reported to their owners as events."""
        await self._decided.wait()
        self._interest = interest
        shared = AllInterest(interest)
        if self.mode == "shared":
            listens = asyncio.Event()
            self._base_following = asyncio.ensure_future(self._follow_base(shared, listens))
            await listens.wait()
        for session in self.sessions:
            if session.is_open:
                self._follow(session)
        yield ()
        while True:
            await interest.wait()
            _ = interest.uris  # what transforms keep of earlier subscriptions is renewed
            shared.notify()
            for session in self.sessions:
                if session.interest is not None:
                    session.interest.notify()

    async def _follow_base(self, interest: Interest, listens: asyncio.Event) -> None:
        """Pass the changes of the shared session on to all clients."""
        try:
            async for batch in self.base.watch(interest):
                listens.set()
                if batch and self._events is not None:
                    self._events.publish(batch)
        finally:
            listens.set()

    def _follow(self, session: UpstreamSession) -> None:
        """Pass the changes of a session on to its owner."""
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
    """Names or URIs of a server in any of its sessions."""

    def __init__(self, isolated: IsolatedProvider, names_of: Callable[[RemoteProvider], Container[str]]) -> None:
        self._isolated = isolated
        self._names_of = names_of

    def __contains__(self, name: object) -> bool:
        return any(name in self._names_of(provider) for provider in self._isolated.providers())
