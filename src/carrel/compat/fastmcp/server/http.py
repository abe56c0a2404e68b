"""ASGI applications of a server, and transports to run it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from carrel.compat.fastmcp.server.auth.access import current_transport
from carrel.compat.fastmcp.server.handlers import LowLevelServer
from carrel.compat.fastmcp.settings import settings
from carrel.compat.lazy import lazily
from carrel.compat.mcp.server.stdio import stdio_server
from carrel.compat.serving import GRACE, Guarded
from carrel.transports.addresses import is_loopback

__all__ = ["Running"]

Transport = Literal["stdio", "http", "sse", "streamable-http"]
TRANSPORTS = ("stdio", "http", "sse", "streamable-http")


class Running:
    """Transports of a server: stdio, Streamable HTTP and HTTP+SSE, with routes of the author's own."""

    name: str
    auth: Any
    _mcp_server: LowLevelServer

    def __init__(self, defaults: dict[str, Any]) -> None:
        self._routes: list[Any] = []
        self._defaults = {key: value for key, value in defaults.items() if value is not None}
        self._transport: str | None = None
        self._started = asyncio.Event()

    def _default(self, name: str, given: Any) -> Any:
        return given if given is not None else self._defaults.get(name, getattr(settings, name, None))

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function for requests to a path beside the endpoint: Starlette request to response."""
        from starlette.routing import Route

        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            route = Route(path, function, methods=methods, name=name, include_in_schema=include_in_schema)
            self._routes.append(route)
            return function

        return decorator

    def _guard(self, path: str) -> Guarded | None:
        """Return the authorization of the endpoint at a path, for commands that serve the server."""
        if self.auth is None:
            return None
        from carrel.compat.fastmcp.server.auth.guard import Guard

        return Guard(self.auth, path).guarded()

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Any] | None = None,
        json_response: bool | None = None,
        stateless_http: bool | None = None,
        transport: Literal["http", "streamable-http", "sse"] = "http",
        **options: Any,
    ) -> Any:
        """Return the server as a Starlette application, to be run or mounted with its ``lifespan``.

        Options: ``host_origin_protection`` (False, True or "auto"), ``allowed_hosts`` and ``allowed_origins`` of
        ``HostOriginGuardMiddleware``. Others have no effect.

        Raises:
            ValueError: there is no such transport.
        """
        if transport not in TRANSPORTS[1:]:
            raise ValueError(f"Unknown transport: {transport}")
        self._transport = "sse" if transport == "sse" else "streamable-http"
        from carrel.compat.fastmcp.server.applications import create_sse_app, create_streamable_http_app

        given = {
            "auth": self.auth,
            "debug": bool(self._default("debug", None)),
            "middleware": middleware,
            **_protection(options),
        }
        if transport == "sse":
            return create_sse_app(self, self._default("message_path", None), self._default("sse_path", path), **given)
        stateless = bool(self._default("stateless_http", stateless_http))
        chosen = self._default("streamable_http_path", path)
        return create_streamable_http_app(self, chosen, stateless_http=stateless, **given)

    def run(self, transport: Transport | None = None, show_banner: bool | None = None, **options: Any) -> None:
        """Serve on a transport until the client is gone or the process is told to stop.

        Raises:
            ValueError: there is no such transport.
        """
        asyncio.run(self.run_async(transport, show_banner, **options))

    async def run_async(
        self, transport: Transport | None = None, show_banner: bool | None = None, **options: Any
    ) -> None:
        """Serve on a transport until the client is gone or the process is told to stop.

        Raises:
            ValueError: there is no such transport.
        """
        chosen = self._default("transport", transport)
        if chosen not in TRANSPORTS:
            raise ValueError(f"Unknown transport: {chosen}")
        if chosen == "stdio":
            await self.run_stdio_async()
        else:
            await self.run_http_async(transport=chosen, **options)

    async def run_stdio_async(self, show_banner: bool = True, log_level: str | None = None, **_: Any) -> None:
        """Serve on standard input and output until the client is gone."""
        self._transport = "stdio"
        current_transport.set("stdio")
        async with stdio_server() as (read, write):
            await self._mcp_server.run(read, write, self._mcp_server.stdio_options())

    async def run_http_async(
        self,
        show_banner: bool = True,
        transport: Literal["http", "streamable-http", "sse"] = "http",
        host: str | None = None,
        port: int | None = None,
        log_level: str | None = None,
        path: str | None = None,
        uvicorn_config: dict[str, Any] | None = None,
        middleware: Sequence[Any] | None = None,
        stateless_http: bool | None = None,
        stateless: bool | None = None,
        **protection: Any,
    ) -> None:
        """Serve over HTTP until the process is told to stop. ``http_app`` says what the other options are."""
        self._mcp_server.begin()
        import uvicorn

        chosen = stateless if stateless_http is None else stateless_http
        address = self._default("host", host)
        checks = _protection(protection)
        if checks["host_origin_protection"] == "auto" and is_loopback(address):
            checks["allowed_hosts"] = [*(checks["allowed_hosts"] or ()), address]
        app = self.http_app(path, middleware, stateless_http=chosen, transport=transport, **checks)
        options: dict[str, Any] = {
            "host": address,
            "port": self._default("port", port),
            "log_level": self._default("log_level", log_level).lower(),
            "timeout_graceful_shutdown": GRACE,
            **(uvicorn_config or {}),
        }
        listening = uvicorn.Server(uvicorn.Config(app, **options))
        serving = asyncio.ensure_future(listening.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:  # uvicorn would leave its sockets open
            listening.should_exit = True
            await asyncio.wait([serving])
            raise


def _protection(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for the Host and Origin headers, from the settings where they are not given."""
    names = ("host_origin_protection", "allowed_hosts", "allowed_origins")
    given = {name: options.get(name) for name in names}
    return {name: getattr(settings, f"http_{name}") if value is None else value for name, value in given.items()}


HostOriginProtection = bool | Literal["auto"]

__getattr__ = lazily(
    "carrel.compat.fastmcp.server",
    {
        **dict.fromkeys(("StarletteWithLifespan", "create_sse_app", "create_streamable_http_app"), "applications"),
        "HostOriginGuardMiddleware": "host_origin",
    },
)
