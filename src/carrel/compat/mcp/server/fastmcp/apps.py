"""ASGI applications of a server: Streamable HTTP and HTTP+SSE, with routes of the author's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from carrel.compat.mcp.server.fastmcp.settings import Settings
from carrel.compat.mcp.server.lowlevel.server import Server as MCPServer
from carrel.compat.serving import GRACE

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from carrel.compat.mcp.server.fastmcp.authorization import Protection
    from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager

__all__ = ["HTTPApps"]


class HTTPApps:
    """ASGI applications of a server, by its settings."""

    settings: Settings
    _mcp_server: MCPServer[Any, Any]
    _auth_server_provider: Any
    _token_verifier: Any

    def __init__(self) -> None:
        self._custom_starlette_routes: list[Any] = []
        self._session_manager: StreamableHTTPSessionManager | None = None

    @property
    def session_manager(self) -> StreamableHTTPSessionManager:
        """Endpoint of Streamable HTTP, to be run by an application that mounts the server.

        Raises:
            RuntimeError: ``streamable_http_app`` was not called.
        """
        if self._session_manager is None:
            raise RuntimeError("The session manager is there once streamable_http_app() was called")
        return self._session_manager

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function for requests to a path beside the endpoint: Starlette request to response."""
        from starlette.routing import Route

        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            route = Route(path, function, methods=methods, name=name, include_in_schema=include_in_schema)
            self._custom_starlette_routes.append(route)
            return function

        return decorator

    def streamable_http_app(self) -> Starlette:
        """Return the server as an application: Streamable HTTP at ``settings.streamable_http_path``."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        if self._session_manager is None:
            settings = self.settings
            self._session_manager = StreamableHTTPSessionManager(
                self._mcp_server,
                json_response=settings.json_response,
                stateless=settings.stateless_http,
                security_settings=settings.transport_security,
                session_idle_timeout=settings.session_idle_timeout,
                max_sessions=settings.max_sessions,
                max_request_body_size=settings.max_request_body_size,
            )
        manager, protection = self._session_manager, self.protection()
        endpoint = Route(self.settings.streamable_http_path, protection.guard(StreamableHTTPASGIApp(manager)))
        return Starlette(
            debug=self.settings.debug,
            routes=[endpoint, *protection.routes(), *self._custom_starlette_routes],
            middleware=protection.middleware(),
            lifespan=lambda _: manager.run(),
        )

    def sse_app(self, mount_path: str | None = None) -> Starlette:
        """Return the server as an application: HTTP+SSE at ``settings.sse_path`` and ``settings.message_path``."""
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route

        from carrel.compat.mcp.server.sse import SseServerTransport

        settings, server = self.settings, self._mcp_server
        if mount_path is not None:
            settings.mount_path = mount_path
        messages = settings.mount_path.rstrip("/") + "/" + settings.message_path.lstrip("/")
        transport = SseServerTransport(
            messages, settings.transport_security, max_request_body_size=settings.max_request_body_size
        )

        class Stream:
            """Endpoint of the stream: an ASGI application."""

            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                async with transport.connect_sse(scope, receive, send) as (read, write):
                    await server.run(read, write, server.create_initialization_options())

        protection = self.protection()
        return Starlette(
            debug=settings.debug,
            routes=[
                Route(settings.sse_path, protection.guard(Stream()), methods=["GET"]),
                Mount(settings.message_path, protection.guard(transport.handle_post_message)),
                *protection.routes(),
                *self._custom_starlette_routes,
            ],
            middleware=protection.middleware(),
        )

    def protection(self) -> Protection:
        """Return the authorization of the endpoints."""
        from carrel.compat.mcp.server.fastmcp.authorization import Protection

        return Protection(self.settings.auth, self._auth_server_provider, self._token_verifier)

    async def run_sse_async(self, mount_path: str | None = None) -> None:
        """Serve HTTP+SSE until the process is told to stop."""
        self._mcp_server.begin()
        await self._serve(self.sse_app(mount_path))

    async def run_streamable_http_async(self) -> None:
        """Serve Streamable HTTP until the process is told to stop."""
        self._mcp_server.begin()
        await self._serve(self.streamable_http_app())

    async def _serve(self, app: Any) -> None:
        import uvicorn

        settings = self.settings
        level = settings.log_level.lower()
        config = uvicorn.Config(app, settings.host, settings.port, log_level=level, timeout_graceful_shutdown=GRACE)
        await uvicorn.Server(config).serve()


class StreamableHTTPASGIApp:
    """Endpoint of Streamable HTTP as an ASGI application."""

    def __init__(self, session_manager: StreamableHTTPSessionManager) -> None:
        self.session_manager = session_manager

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.session_manager.handle_request(scope, receive, send)
