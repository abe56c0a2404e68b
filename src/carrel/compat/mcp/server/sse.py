"""HTTP+SSE of a server: two ASGI endpoints, for the stream and for messages of clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from carrel.compat.authorizer import UserAuthorizer
from carrel.compat.exchange import http_scope
from carrel.compat.mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
    check_body_size,
)
from carrel.compat.streams import ServerStream
from carrel.transports import held_output
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.http import StreamableHTTP

__all__ = ["SseServerTransport"]

STREAM = "/sse"
MESSAGES = b"/sse/messages?"


class SseServerTransport:
    """HTTP+SSE transport, whose clients post to ``endpoint``, a path. Its clients share one server, and its lifespan.

    Raises:
        ValueError: the endpoint is not a path.
    """

    def __init__(
        self,
        endpoint: str,
        security_settings: TransportSecuritySettings | None = None,
        max_request_body_size: int = DEFAULT_MAX_REQUEST_BODY_SIZE,
    ) -> None:
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(f"Given endpoint: {endpoint} is not a relative path (e.g., '/messages/')")
        self._path = "/" + endpoint.removeprefix("/")
        check_body_size(max_request_body_size)
        self._security = TransportSecurityMiddleware(security_settings)
        self._post = RequestBodyLimitMiddleware(self._handle, max_request_body_size)
        self._http: StreamableHTTP | None = None
        self._clients = 0

    @asynccontextmanager
    async def connect_sse(
        self, scope: Any, receive: Any, send: Any
    ) -> AsyncIterator[tuple[ServerStream, ServerStream]]:
        """Yield the streams of the client that sends a GET request.

        Raises:
            ValueError: it is no HTTP request.
        """
        if scope["type"] != "http":
            raise ValueError("connect_sse can only handle HTTP requests")
        if await self._security.refuses(scope, receive, send):
            raise ValueError("Request validation failed")
        told = f"{quote(scope.get('root_path', '').rstrip('/') + self._path)}?".encode()

        async def tell(message: Any) -> None:
            if MESSAGES in message.get("body", b""):  # the first event: where to post
                message = {**message, "body": message["body"].replace(MESSAGES, told, 1)}
            await send(message)

        async def serve(app: HasEndpoint) -> None:
            await self._listen(app, {**scope, "path": STREAM, "root_path": ""}, receive, tell)

        stream = ServerStream(serve)
        yield stream, stream

    async def _listen(self, app: HasEndpoint, scope: Any, receive: Any, send: Any) -> None:
        if self._http is None:
            held_output.release()
            self._http = StreamableHTTP(
                app,
                sse_path=STREAM,
                allowed_hosts=["*"],  # checked by ``connect_sse`` and ``handle_post_message``
                allowed_origins=["*"],
                authorization=UserAuthorizer(),
            )
        http = self._http
        self._clients += 1
        try:
            await http(scope, receive, send)
        finally:
            self._clients -= 1
            if self._clients == 0:
                self._http = None
                await http.stop()

    async def handle_post_message(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a POST request with a message of a client: an ASGI application."""
        if scope["method"] != "POST":
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body", "body": b""})
        elif not await self._security.refuses(scope, receive, send):
            await self._post(scope, receive, send)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        if self._http is None:
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"Could not find session"})
            return
        token = http_scope.set(scope)
        try:
            await self._http({**scope, "path": f"{STREAM}/messages", "root_path": ""}, receive, send)
        finally:
            http_scope.reset(token)
