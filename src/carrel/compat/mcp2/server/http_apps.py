"""ASGI applications of a server: the applications of the first generation, with options as arguments."""

from __future__ import annotations

from typing import Any

from carrel.compat.mcp.server.fastmcp.apps import HTTPApps
from carrel.compat.mcp.server.fastmcp.settings import settings_of
from carrel.compat.serving import ServedServer

__all__ = ["Apps"]


class Apps(HTTPApps):
    """Applications of a low-level server. ``options`` are settings such as ``host`` and ``streamable_http_path``."""

    def __init__(
        self,
        server: ServedServer,
        routes: list[Any],
        options: dict[str, Any],
        *,
        auth_server_provider: Any = None,
        token_verifier: Any = None,
    ) -> None:
        super().__init__()
        given: Any = {name: value for name, value in options.items() if name not in ("event_store", "retry_interval")}
        self.settings = settings_of(given)
        low_level: Any = server
        self._mcp_server = low_level
        self._custom_starlette_routes = routes
        self._auth_server_provider = auth_server_provider
        self._token_verifier = token_verifier
