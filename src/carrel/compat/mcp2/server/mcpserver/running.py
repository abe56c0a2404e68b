"""Declaration of an ``MCPServer``, and how it runs on its low-level server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal

import anyio

from carrel.compat.mcp.server.stdio import stdio_server
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.context import ServerMiddleware
from carrel.compat.mcp2.server.lowlevel.server import LifespanResultT
from carrel.compat.mcp2.server.lowlevel.server import Server as LowLevelServer

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from carrel.compat.mcp2.server.http_apps import Apps

__all__ = ["Running"]

TRANSPORTS = ("stdio", "sse", "streamable-http")


class Running(Generic[LifespanResultT]):
    """Base of ``MCPServer``: what its low-level server declares, and its transports."""

    settings: Any
    _lowlevel_server: LowLevelServer[LifespanResultT]
    _custom_starlette_routes: list[Any]
    _auth_server_provider: Any
    _token_verifier: Any

    # Declaration

    @property
    def name(self) -> str:
        """Name of the server."""
        return self._lowlevel_server.name

    @property
    def title(self) -> str | None:
        """Name for people."""
        return self._lowlevel_server.title

    @property
    def description(self) -> str | None:
        """Description of the server."""
        return self._lowlevel_server.description

    @property
    def instructions(self) -> str | None:
        """Instructions for models."""
        return self._lowlevel_server.instructions

    @property
    def website_url(self) -> str | None:
        """Website of the server."""
        return self._lowlevel_server.website_url

    @property
    def icons(self) -> list[types.Icon] | None:
        """Icons of the server."""
        return self._lowlevel_server.icons

    @property
    def version(self) -> str:
        """Version of the server."""
        return self._lowlevel_server.version

    @property
    def middleware(self) -> list[ServerMiddleware[Any]]:
        """Middleware around every message of a client, the outermost first."""
        return self._lowlevel_server.middleware

    # Running

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Any:
        """Register the decorated function for requests to a path beside the endpoint: Starlette request to response."""
        return self._apps({}).custom_route(path, methods, name, include_in_schema)

    def _options(self) -> dict[str, Any]:
        return {"debug": self.settings.debug, "log_level": self.settings.log_level, "auth": self.settings.auth}

    def _apps(self, options: dict[str, Any]) -> Apps:
        from carrel.compat.mcp2.server.http_apps import Apps

        return Apps(
            self._lowlevel_server,
            self._custom_starlette_routes,
            {**self._options(), **options},
            auth_server_provider=self._auth_server_provider,
            token_verifier=self._token_verifier,
        )

    @property
    def session_manager(self) -> StreamableHTTPSessionManager:
        """Endpoint of Streamable HTTP, to be run by an application that mounts the server.

        Raises:
            RuntimeError: ``streamable_http_app`` was not called.
        """
        return self._lowlevel_server.session_manager

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the server as an application: Streamable HTTP at ``streamable_http_path``."""
        return self._lowlevel_server.streamable_http_app(
            custom_starlette_routes=self._custom_starlette_routes,
            token_verifier=self._token_verifier,
            auth_server_provider=self._auth_server_provider,
            **self._options(),
            **options,
        )

    def sse_app(self, **options: Any) -> Starlette:
        """Return the server as an application: HTTP+SSE at ``sse_path`` and ``message_path``."""
        return self._apps(options).sse_app()

    def run(self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", **options: Any) -> None:
        """Serve on a transport until the client is gone or the process is told to stop.

        Raises:
            ValueError: there is no such transport.
        """
        if transport not in TRANSPORTS:
            raise ValueError(f"Unknown transport: {transport}")
        if transport == "stdio":
            anyio.run(self.run_stdio_async)
        elif transport == "sse":
            anyio.run(lambda: self.run_sse_async(**options))
        else:
            anyio.run(lambda: self.run_streamable_http_async(**options))

    async def run_stdio_async(self) -> None:
        """Serve on standard input and output until the client is gone."""
        async with stdio_server() as (read, write):
            await self._lowlevel_server.run(read, write, self._lowlevel_server.create_initialization_options())

    async def run_sse_async(self, **options: Any) -> None:
        """Serve HTTP+SSE until the process is told to stop."""
        await self._apps(options).run_sse_async()

    async def run_streamable_http_async(self, **options: Any) -> None:
        """Serve Streamable HTTP until the process is told to stop."""
        await self._apps(options).run_streamable_http_async()
