"""Streamable HTTP for one session, or without sessions, for programs that make a transport for each client."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from carrel.compat.authorizer import UserAuthorizer
from carrel.compat.exchange import http_scope
from carrel.compat.mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from carrel.compat.serving import receive_nothing
from carrel.compat.sessionless import Sessionless
from carrel.compat.streams import ServerStream
from carrel.errors import INVALID_REQUEST
from carrel.limits import Limits
from carrel.protocol.encoding import encode_error
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.http_response import respond

if TYPE_CHECKING:
    import anyio

__all__ = ["StreamableHTTPServerTransport"]

PATH = "/mcp"
SESSION = b"mcp-session-id"
VISIBLE = re.compile(r"[\x21-\x7e]+")


class StreamableHTTPServerTransport:
    """Endpoint of Streamable HTTP whose session has the id ``mcp_session_id``; None: without sessions.

    Carrel decides per response between JSON and SSE, and replays missed events from its event log. ``idle_scope`` is
    cancelled after ``idle_timeout`` seconds without a request in flight; it is None without a timeout.

    Raises:
        ValueError: the id is not visible ASCII.
    """

    def __init__(
        self,
        mcp_session_id: str | None,
        is_json_response_enabled: bool = False,
        event_store: Any = None,
        security_settings: TransportSecuritySettings | None = None,
        retry_interval: int | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        if mcp_session_id is not None and not VISIBLE.fullmatch(mcp_session_id):
            raise ValueError("Session ID must only contain visible ASCII characters (0x21-0x7E)")
        self.mcp_session_id = mcp_session_id
        self.is_json_response_enabled = is_json_response_enabled
        self._security = TransportSecurityMiddleware(security_settings)
        self._endpoint: asyncio.Future[Any] | None = None
        self._ended = asyncio.Event()
        self._inner = b""
        """Id that Carrel gave the session."""
        self._shared = False
        self._opened_by: Any = None
        """Scope of the request that opened the session of an endpoint shared with other transports."""
        self._in_flight = 0
        self._idle_timeout = idle_timeout
        self.idle_scope: anyio.CancelScope | None = None
        if idle_timeout is not None:
            import anyio

            self.idle_scope = anyio.CancelScope()

    @property
    def is_terminated(self) -> bool:
        """Whether the transport was terminated."""
        return self._ended.is_set()

    @property
    def has_session(self) -> bool:
        """Whether a request has opened the session."""
        return bool(self._inner)

    def share(self, endpoint: Any) -> None:
        """Handle requests by an endpoint that serves other transports too, without ``connect``."""
        self._endpoint = asyncio.get_running_loop().create_future()
        self._endpoint.set_result(endpoint)
        self._shared = True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[ServerStream, ServerStream]]:
        """Yield the streams for ``Server.run``, which ends with ``terminate`` or with the block."""
        self._endpoint = asyncio.get_running_loop().create_future()
        stream = ServerStream(self._serve)
        try:
            yield stream, stream
        finally:
            await self.terminate()

    async def _serve(self, app: HasEndpoint) -> None:
        http = StreamableHTTP(
            app, path=PATH, allowed_hosts=["*"], allowed_origins=["*"], authorization=UserAuthorizer()
        )
        assert self._endpoint is not None
        async with http.lifespan():
            plain = self.mcp_session_id is None
            self._endpoint.set_result(Sessionless(http, Limits().max_message_bytes) if plain else http)
            await self._ended.wait()

    async def terminate(self) -> None:
        """End the session."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self.idle_scope is not None:
            self.idle_scope.cancel()
        if self._opened_by is not None:  # otherwise the session ends with its endpoint
            assert self._endpoint is not None
            ending = {**self._opened_by, "method": "DELETE", "headers": [(SESSION, self._inner)]}
            await self._endpoint.result()(ending, receive_nothing, _discard)

    async def handle_request(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request at any path: an ASGI application.

        Raises:
            RuntimeError: the transport was not connected.
        """
        if self._endpoint is None:
            raise RuntimeError("the transport handles requests inside of connect()")
        with self._busy():
            await self._handle(self._endpoint, scope, receive, send)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Count a request in flight; the idle period begins after the last one."""
        scope = self.idle_scope
        self._in_flight += 1
        if scope is not None:
            scope.deadline = math.inf
        try:
            yield
        finally:
            self._in_flight -= 1
            if scope is not None and self._idle_timeout is not None and not self._in_flight:
                scope.deadline = asyncio.get_running_loop().time() + self._idle_timeout

    async def _handle(self, started: asyncio.Future[Any], scope: Any, receive: Any, send: Any) -> None:
        if await self._security.refuses(scope, receive, send):
            return
        endpoint = await self._running(started)
        if endpoint is None:
            body = encode_error(UNSET, INVALID_REQUEST, "Not Found: Session has been terminated")
            own = self.mcp_session_id
            await respond(send, 404, body, [] if own is None else [(SESSION, own.encode())])
            return
        token = http_scope.set(scope)
        try:
            inward = self._inward(scope)
            await endpoint(inward, receive, self._outward(inward, send))
        finally:
            http_scope.reset(token)

    async def _running(self, endpoint: asyncio.Future[Any]) -> Any:
        """Wait until ``Server.run`` serves the streams, and return the endpoint; None if the transport has ended."""
        if not endpoint.done():
            ended = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait((endpoint, ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
        return None if self._ended.is_set() else endpoint.result()

    def _inward(self, scope: Any) -> Any:
        own = (self.mcp_session_id or "").encode()
        headers = [
            (name, self._inner if name == SESSION and value == own and own else value)
            for name, value in scope["headers"]
        ]
        return {**scope, "path": PATH, "root_path": "", "headers": headers}

    def _outward(self, scope: Any, send: Any) -> Any:
        async def with_own_id(message: Any) -> None:
            if message["type"] == "http.response.start" and self.mcp_session_id is not None:
                given = dict(message["headers"])
                if SESSION in given:
                    self._inner = given[SESSION]
                    if self._shared:
                        self._opened_by = scope
                status = message["status"]
                if scope["method"] == "DELETE" and status == 204:
                    self._opened_by, status = None, 200
                    self._ended.set()
                    given[b"content-length"] = b"0"
                if self._inner:
                    given[SESSION] = self.mcp_session_id.encode()
                message = {**message, "status": status, "headers": list(given.items())}
            await send(message)

        return with_own_id


async def _discard(message: Any) -> None:
    """Ignore a part of a response."""
