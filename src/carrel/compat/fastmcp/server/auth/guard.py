"""Guard of the endpoints of a server: its provider's middleware, routes and requirements."""

from __future__ import annotations

from typing import Any

from carrel.compat.generation import fastmcp_generation
from carrel.compat.serving import Guarded, guarded

__all__ = ["Guard"]


class Guard:
    """Authorization of an endpoint at a path. Without a provider, everything is open."""

    def __init__(self, auth: Any, path: str) -> None:
        self._auth = auth
        self.routes: list[Any] = [] if auth is None else list(auth.get_routes(mcp_path=path))
        self.middleware: list[Any] = [] if auth is None else list(auth.get_middleware())
        self._url = None if auth is None else auth._get_resource_url(path)

    def guarded(self) -> Guarded | None:
        """Return the authorization for commands that serve the server in place of the program; None without any."""
        return None if self._auth is None else guarded(self.middleware, self.wrap, self.routes)

    def wrap(self, endpoint: Any) -> Any:
        """Return an endpoint that only requests with a valid token reach."""
        if self._auth is None:
            return endpoint
        from carrel.compat.fastmcp.server.auth.middleware import RequireAuthMiddleware
        from carrel.compat.mcp.server.auth.routes import build_resource_metadata_url

        metadata = None if self._url is None else build_resource_metadata_url(self._url)
        if fastmcp_generation() < 4:
            return RequireAuthMiddleware(endpoint, self._auth.required_scopes, metadata)
        served = metadata is not None and any(getattr(route, "path", "") == metadata.path for route in self.routes)
        scopes = self._auth.challenge_scopes
        return RequireAuthMiddleware(endpoint, self._auth.required_scopes, metadata if served else None, scopes)
