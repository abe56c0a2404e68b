"""Endpoints of metadata documents."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse
from carrel.compat.mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

__all__ = ["MetadataHandler", "ProtectedResourceMetadataHandler"]

CACHING = {"Cache-Control": "public, max-age=3600"}


@dataclass
class MetadataHandler:
    """Endpoint of the authorization server metadata (RFC 8414)."""

    metadata: OAuthMetadata

    async def handle(self, request: Request) -> Response:
        """Return the document."""
        return PydanticJSONResponse(self.metadata, headers=CACHING)


@dataclass
class ProtectedResourceMetadataHandler:
    """Endpoint of the protected resource metadata (RFC 9728)."""

    metadata: ProtectedResourceMetadata

    async def handle(self, request: Request) -> Response:
        """Return the document."""
        return PydanticJSONResponse(self.metadata, headers=CACHING)
