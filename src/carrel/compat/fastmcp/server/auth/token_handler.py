"""Token endpoint with the errors of OAuth 2.1 and MCP: ``invalid_client``, and 401 for invalid grants."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.mcp.server.auth.handlers.token import HEADERS, TokenErrorResponse
from carrel.compat.mcp.server.auth.handlers.token import TokenHandler as BasicTokenHandler
from carrel.compat.mcp.server.auth.json_response import PydanticJSONResponse

__all__ = ["TokenHandler"]

#: Errors of the basic handler, and the errors to send instead, with 401.
INSTEAD: Any = {(401, "unauthorized_client"): "invalid_client", (400, "invalid_grant"): "invalid_grant"}


class TokenHandler(BasicTokenHandler):
    """Token endpoint."""

    async def handle(self, request: Request) -> Response:
        """Exchange an authorization code or a refresh token for tokens."""
        response = await super().handle(request)
        if response.status_code == 200:
            return response
        body = json.loads(bytes(response.body))
        error = INSTEAD.get((response.status_code, body.get("error")))
        if error is None:
            return response
        said = TokenErrorResponse(error=error, error_description=body.get("error_description"))
        return PydanticJSONResponse(said, status_code=401, headers=HEADERS)
