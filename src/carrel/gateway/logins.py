"""LoginProvider: an isolated remote server where each principal logs in, if the server requires it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.provider import Contexts, Page, Request, RequestContext
from carrel.errors import LoginRequired
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.no_grant import FOR_CLIENT
from carrel.gateway.sessions import UpstreamSession
from carrel.host.reconnect import Status
from carrel.host.relay import RELAY, Relay
from carrel.host.relays import Relays
from carrel.host.remote import RemoteProvider
from carrel.host.remote_calls import can_be_asked
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.gateway.grants import Grant
    from carrel.protocol.principal import Principal
    from carrel.state.replica import Replica

__all__ = ["LoginProvider"]

T = TypeVar("T")


class LoginProvider(IsolatedProvider):
    """Provider for a remote server, with one session and one grant per principal.

    Sessions are separate once the server requires a login. A principal who has not logged in sees one tool,
    ``NAME_login``. ``grant_of`` returns the grant of a principal, to pass as ``auth`` to the clients that ``connect``
    returns. The default session must use ``NoGrant``. The other arguments are the same as for ``IsolatedProvider``.
    """

    def __init__(self, *, grant_of: Callable[[Principal | None], Grant], **options: Any) -> None:
        super().__init__(**options)
        self._grant_of = grant_of
        self._logins = Relays()
        self.login_tool = f"{self.name}_login"
        """Name of the login tool, which users see in place of other tools until they log in."""
        self._named = self.tool_names
        self.tool_names = _WithLogin(self, self.tool_names)

    async def stop(self) -> None:
        """Close all sessions."""
        await self._logins.stop()
        await super().stop()

    def _observe(self, status: Status) -> None:
        if needs_login(self.default) and not self.separate_credentials:
            self._separate()
        super()._observe(status)

    def _separate(self) -> None:
        """Open a separate session for each caller from now on."""
        self.separate_credentials, self.default_free = True, False
        for session in self.sessions:
            self.sessions.drop(session)

    def opening(self, session: UpstreamSession, provider: RemoteProvider, principal: Principal | None) -> None:
        """Have a session reconnect as soon as its user has logged in."""
        given = self._grant_of(principal).given
        given.append(provider.reconnector.retry)
        session.forget = lambda: given.remove(provider.reconnector.retry)

    # Requests that may ask the user to log in

    async def serve(
        self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]], *, repeatable: bool = True
    ) -> T:
        """Return the response to a request. If the server requires it, ask the client to have its user log in first."""
        if request.contexts is None or request.call is None:
            return await super().serve(request, ask, repeatable=repeatable)
        FOR_CLIENT.set(True)
        if getattr(request.call.params, "request_state", None) is None:
            separate = self.separate_credentials
            async with self.session(request) as session:
                provider = self._provider(session)
                if provider.reconnector.status.name == "ready":  # most requests need no context
                    try:
                        return await ask(provider, request)
                    except LoginRequired:
                        if separate:
                            raise
        async with request.contexts.open(request, repeatable=repeatable) as context:
            inner = copy(request)
            inner.contexts = _Opened(context, request.contexts)
            apart = self.separate_credentials
            try:
                return await self._ask_user(inner, ask)
            except LoginRequired:
                if apart:
                    raise
            if (
                not self.separate_credentials
            ):  # the server has rejected a request without credentials, so retrying it is safe
                self._separate()
            return await self._ask_user(inner, ask)

    async def _ask_user(self, request: Request, ask: Callable[[RemoteProvider, Request], Awaitable[T]]) -> T:
        async with self.session(request) as session:
            provider = self._provider(session)
            if session is not None and needs_login(provider):
                await self._log_in(request)
                provider.reconnector.retry()
            if provider.reconnector.status.name == "connecting":
                await provider.reconnector.settled()
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
        """Return a page of the server's tools, or only the login tool if the caller has to log in first."""
        if self.separate_credentials:
            async with self.session(request) as session:
                if session is not None and await self._still_needs_login(self._provider(session), request):
                    return self._login_page()
        try:
            return await resolved(super().list_tools(request))
        except LoginRequired:  # the server no longer accepts the grant
            return self._login_page()

    async def _still_needs_login(self, provider: RemoteProvider, request: Request) -> bool:
        """Return whether the user has to log in first, and has not done so at another replica."""
        if needs_login(provider) and await self._grant_of(request.caller).given_elsewhere():
            provider.reconnector.retry()
            await provider.reconnector.settled()
        return needs_login(provider)

    def _login_page(self) -> Page[Tool]:
        words = f"Log in at {self.name}. Its other tools are available after that."
        return Page([Tool(name=self.login_tool, description=words, input_schema={"type": "object"})], scope="private")

    async def run_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult | bytes:
        """Call a tool, and return its result. If a login fails or is not possible, return an error result with the
        reason.
        """

        async def call(provider: RemoteProvider, inner: Request) -> CallToolResult | bytes:
            if not self._is_login(name):
                return await provider.run_tool(name, arguments, inner)
            if needs_login(provider):  # the server does not accept the new grant
                raise LoginRequired(f"{self.name} still refuses: {provider.reconnector.status.reason}")
            return CallToolResult(content=[TextContent(f"You are logged in at {self.name}. List the tools again.")])

        try:
            return await self.serve(request, call, repeatable=False)
        except LoginRequired as error:
            return CallToolResult(content=[TextContent(str(error))], is_error=True)

    def _is_login(self, name: str) -> bool:
        """Return whether a name is the login tool's name, with or without the prefix of the server."""
        return name == self.login_tool or (name == "login" and name not in self._named)


def needs_login(provider: RemoteProvider) -> bool:
    """Return whether connecting to a server fails because a user has to log in."""
    status = provider.reconnector.status
    return status.name in ("failed", "connecting") and isinstance(status.reason, LoginRequired)


class _WithLogin(Container[str]):
    """Names of a server's tools, plus the login tool."""

    def __init__(self, provider: LoginProvider, names: Container[str]) -> None:
        self._provider = provider
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names or (name == self._provider.login_tool and self._provider.separate_credentials)


class _Opened(Contexts):
    """Contexts for a request with an open context, which the login and then the request itself use."""

    def __init__(self, context: RequestContext, contexts: Contexts) -> None:
        self._context = context
        self._contexts = contexts

    @property
    def replica(self) -> Replica:
        """The gateway among its replicas."""
        return self._contexts.replica

    @asynccontextmanager
    async def open(self, request: Request, *, repeatable: bool) -> AsyncIterator[RequestContext]:
        """Yield the context."""
        yield self._context

    def call_as_task(self, *_: Any, **__: Any) -> None:
        """Return None: whether the call is a task was decided before its context was opened."""
