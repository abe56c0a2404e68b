"""Resource server that also serves the metadata of its authorization server, for clients that look for them here."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import RemoteAuthProvider, TokenVerifier
from carrel.compat.mcp.server.auth.routes import METADATA_PATH

__all__ = ["ForwardingProvider"]


class ForwardingProvider(RemoteAuthProvider):
    """Resource server with one authorization server, whose metadata are at ``metadata_url``."""

    def __init__(
        self,
        *,
        service: str,
        metadata_url: str,
        token_verifier: TokenVerifier,
        authorization_server: str,
        base_url: AnyHttpUrl | str,
        **options: Any,
    ) -> None:
        super().__init__(token_verifier, [AnyHttpUrl(authorization_server)], base_url, **options)
        self._service = service
        self._metadata_url = metadata_url

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the metadata of the resource, and of the authorization server."""
        return [*super().get_routes(mcp_path), Route(METADATA_PATH, self._forward, methods=["GET"])]

    async def _forward(self, request: Request) -> JSONResponse:
        try:
            async with httpx.AsyncClient() as client:
                response = await client.get(self._metadata_url)
                response.raise_for_status()
                return JSONResponse(response.json())
        except (httpx.HTTPError, ValueError) as error:
            said = f"Failed to fetch {self._service} metadata: {error}"
            return JSONResponse({"error": "server_error", "error_description": said}, status_code=500)
