"""LoginProvider: an isolated remote server at which each principal logs in, when the server wants that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.catalog.provider import Page, Request, RequestContext
from carrel.errors import LoginRequired
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.no_grant import FOR_CLIENT
from carrel.gateway.sessions import UpstreamSession
from carrel.host.relay import RELAY, Relay, Relays
from carrel.host.remote import RemoteProvider
from carrel.host.remote_calls import can_be_asked
from carrel.host.upkeep import Status
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.gateway.grants import Grant
    from carrel.protocol.principal import Principal

__all__ = ["LoginProvider"]

T = TypeVar("T")


class LoginProvider(IsolatedProvider):
    """Provider of what a remote server offers to each principal, with the grant of that principal.

    Sessions are apart from the moment that the server wants a login. A principal who has not logged in has one tool,
    ``NAME_login``. ``grant_of`` returns the grant of a principal, which is to be the ``auth`` of the clients that
    ``connect`` returns; that of ``base`` is ``NoGrant``. The other arguments are those of ``IsolatedProvider``.
    """

    def __init__(self, *, grant_of: Callable[[Principal | None], Grant], **options: Any) -> None:
        super().__init__(**options)
        self._grant_of = grant_of
        self._logins = Relays()
        self.login_tool = f"{self.name}_login"
        """Name of the tool by which users log in, in the lists of those who have not."""
        self._named = self.tool_names
        self.tool_names = _WithLogin(self, self.tool_names)

    async def stop(self) -> None:
        """Close all sessions."""
        await self._logins.stop()
        await super().stop()

    def _observe(self, status: Status) -> None:
        if needs_login(self.base) and not self.personal:
            self._separate()
        super()._observe(status)

    def _separate(self) -> None:
        """Give each caller a session of its own from now on."""
        self.personal, self.adoptable = True, False
        for session in self.sessions:
            self.sessions.drop(session)

    def opening(self, session: UpstreamSession, provider: RemoteProvider, principal: Principal | None) -> None:
        """Have a session connect again as soon as its user has logged in."""
        given = self._grant_of(principal).given
        given.append(provider.upkeep.retry)
        session.forget = lambda: given.remove(provider.upkeep.retry)

    # Requests that may ask the user to log in

    async def serve(
        self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]], *, repeatable: bool = True
    ) -> T:
        """Return the answer to a request during which the client may be asked to have its user log in."""
        if request.contexts is None or request.call is None:
            return await super().serve(request, ask, repeatable=repeatable)
        async with request.contexts.open(request, repeatable=repeatable) as context:
            inner = msgspec.structs.replace(request, contexts=_Opened(context))
            FOR_CLIENT.set(True)
            apart = self.personal
            try:
                return await self._ask_user(inner, ask)
            except LoginRequired:
                if apart:
                    raise
            if not self.personal:  # the session has no credentials, and as the server has refused, nothing was done
                self._separate()
            return await self._ask_user(inner, ask)

    async def _ask_user(self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]]) -> T:
        async with self.session(request) as session:
            provider = self._provider(session)
            if session is not None and needs_login(provider):
                await self._log_in(request)
                provider.upkeep.retry()
            if provider.upkeep.status.name == "connecting":
                await provider.upkeep.settled()
            return await ask(provider, request)

    async def _log_in(self, request: Request) -> None:
        """Have the user of a request log in."""
        grant = self._grant_of(request.caller)
        if request.channel is None or not can_be_asked(request):
            await grant.log_in()
            return

        async def send(relay: Relay) -> None:
            RELAY.set(relay)
            await grant.log_in()

        try:
            await self._logins.run(f"{self.name} login", request, send, repeatable=True)
        finally:
            RELAY.set(None)

    # Tools

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the server's tools; for a caller who has to log in first, the tool for that."""
        if self.personal:
            async with self.session(request) as session:
                if session is not None and needs_login(self._provider(session)):
                    return self._login_page()
        try:
            return await super().list_tools(request)
        except LoginRequired:  # the server does not accept the grant any more
            return self._login_page()

    def _login_page(self) -> Page[Tool]:
        words = f"Log in at {self.name}. Its other tools are available after that."
        return Page([Tool(name=self.login_tool, description=words, input_schema={"type": "object"})], scope="private")

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult | msgspec.Struct:
        """Call a tool, and return its result. Where a login is needed, and clients cannot show pages, that says how."""

        async def call(provider: RemoteProvider, inner: Request) -> CallToolResult | msgspec.Struct:
            if not self._is_login(name):
                return await provider.call_tool(name, arguments, inner)
            if needs_login(provider):  # again, as the server does not accept the grant
                raise LoginRequired(f"{self.name} still refuses: {provider.upkeep.status.reason}")
            return CallToolResult(content=[TextContent(f"You are logged in at {self.name}. List the tools again.")])

        try:
            return await self.serve(request, call, repeatable=False)
        except LoginRequired as error:
            return CallToolResult(content=[TextContent(str(error))], is_error=True)

    def _is_login(self, name: str) -> bool:
        """Return whether a name is that of the tool for logins, or that without the name of the server as a prefix."""
        return name == self.login_tool or (name == "login" and name not in self._named)


def needs_login(provider: RemoteProvider) -> bool:
    """Return whether a server cannot be connected to, as a user has to log in there."""
    status = provider.upkeep.status
    return status.name in ("failed", "connecting") and isinstance(status.reason, LoginRequired)


class _WithLogin(Container[str]):
    """Names of the tools of a server, and of the tool for logins."""

    def __init__(self, provider: LoginProvider, names: Container[str]) -> None:
        self._provider = provider
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names or (name == self._provider.login_tool and self._provider.personal)


class _Opened:
    """Context of a request that is open already: several parts of its handling use it, one after the other."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    @asynccontextmanager
    async def open(self, request: Request, *, repeatable: bool) -> AsyncIterator[RequestContext]:
        """Give the context."""
        yield self._context
