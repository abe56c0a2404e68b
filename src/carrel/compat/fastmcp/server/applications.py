"""Starlette applications of a server, for Streamable HTTP and HTTP+SSE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from carrel.compat.fastmcp.server.auth.guard import Guard
from carrel.compat.fastmcp.server.host_origin import host_origin_guard

__all__ = ["StarletteWithLifespan", "create_sse_app", "create_streamable_http_app"]


class StarletteWithLifespan(Starlette):
    """Starlette application with its lifespan, for an application that mounts it."""

    @property
    def lifespan(self) -> Any:
        """The lifespan."""
        return self.router.lifespan_context


class Endpoint:
    """Endpoint of Streamable HTTP as an ASGI application."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)


class Stream:
    """Endpoint of the stream of HTTP+SSE as an ASGI application."""

    def __init__(self, server: Any, transport: Any) -> None:
        self._server = server
        self._transport = transport

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self._transport.connect_sse(scope, receive, send) as (read, write):
            await self._server.run(read, write, self._server.create_initialization_options())


def create_streamable_http_app(
    server: Any,
    streamable_http_path: str,
    *_: Any,
    auth: Any = None,
    stateless_http: bool = False,
    debug: bool = False,
    routes: Sequence[Any] | None = None,
    middleware: Sequence[Any] | None = None,
    host_origin_protection: bool | Literal["auto"] = False,
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    **__: Any,
) -> StarletteWithLifespan:
    """Return the application of a ``FastMCP`` server for Streamable HTTP."""
    from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    checks = host_origin_guard(host_origin_protection, allowed_hosts, allowed_origins)
    guard = Guard(auth, streamable_http_path)
    manager = StreamableHTTPSessionManager(server._mcp_server, stateless=stateless_http)
    app = StarletteWithLifespan(
        debug=debug,
        routes=[
            Route(streamable_http_path, guard.wrap(Endpoint(manager))),
            *guard.routes,
            *(routes or ()),
            *server._routes,
        ],
        middleware=[*checks, *guard.middleware, *(middleware or ())],
        lifespan=lambda _: manager.run(),
    )
    app.state.fastmcp_server = server
    app.state.path = streamable_http_path
    return app


def create_sse_app(
    server: Any,
    message_path: str,
    sse_path: str,
    auth: Any = None,
    debug: bool = False,
    routes: Sequence[Any] | None = None,
    middleware: Sequence[Any] | None = None,
    host_origin_protection: bool | Literal["auto"] = False,
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    **_: Any,
) -> StarletteWithLifespan:
    """Return the application of a ``FastMCP`` server for HTTP+SSE."""
    from carrel.compat.mcp.server.sse import SseServerTransport

    transport = SseServerTransport(message_path)
    checks = host_origin_guard(host_origin_protection, allowed_hosts, allowed_origins)
    guard = Guard(auth, sse_path)
    app = StarletteWithLifespan(
        debug=debug,
        routes=[
            Route(sse_path, guard.wrap(Stream(server._mcp_server, transport)), methods=["GET"]),
            Mount(message_path, guard.wrap(transport.handle_post_message)),
            *guard.routes,
            *(routes or ()),
            *server._routes,
        ],
        middleware=[*checks, *guard.middleware, *(middleware or ())],
    )
    app.state.fastmcp_server = server
    app.state.path = sse_path
    return app
