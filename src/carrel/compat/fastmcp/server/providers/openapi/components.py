"""Tools, resources and resource templates that send a request to an API."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from carrel.compat.fastmcp.resources.resource import Resource, ResourceContent, ResourceResult
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.dependencies import get_http_headers
from carrel.compat.fastmcp.tools.result import WRAPPED
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.fastmcp.utilities.openapi import HTTPRoute
from carrel.errors import MCPError

__all__ = ["OpenAPIResource", "OpenAPIResourceTemplate", "OpenAPITool"]


class Operation(FastMCPComponent):
    """Component that sends a request to an API with a client of httpx."""

    KEY_PREFIX: ClassVar[str] = "operation"

    client: Any = Field(exclude=True)
    route: HTTPRoute = Field(exclude=True)

    async def _send(self, arguments: dict[str, Any]) -> Any:
        """Return the response of the API.

        Raises:
            ValueError: the request cannot be built or sent, or the API answers with an error.
        """
        route = self.route
        try:
            wanted = route.prepare(arguments)
        except MCPError as error:
            raise ValueError(f"Error building request for {route.method} {route.path}: {error}") from None
        headers = {**get_http_headers(), **dict(self.client.headers or {}), **wanted.headers}
        try:
            request = self.client.build_request(wanted.method, wanted.path, content=wanted.content, headers=headers)
            response = await self.client.send(request)
        except Exception as error:
            kind = type(error).__name__
            if "Timeout" in kind:
                raise ValueError(f"HTTP request timed out ({kind})") from error
            raise ValueError(f"Request error ({kind}): {error}") from error
        if not response.is_success:
            text = f"HTTP error {response.status_code}: {response.reason_phrase}"
            try:
                raise ValueError(f"{text} - {response.json()}")
            except json.JSONDecodeError:
                raise ValueError(f"{text} - {response.text}" if response.text else text) from None
        return response

    async def _read(self, arguments: dict[str, Any]) -> ResourceResult:
        response = await self._send(arguments)
        kind = response.headers.get("content-type", "").lower()
        if "application/json" in kind:
            return ResourceResult([ResourceContent(json.dumps(response.json()), "application/json")])
        content = response.text if "text/" in kind or "application/xml" in kind else response.content
        return ResourceResult([ResourceContent(content, self.mime_type)])  # type: ignore[attr-defined]


class OpenAPITool(Operation, Tool):
    """Tool of a route."""

    KEY_PREFIX: ClassVar[str] = "tool"

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Send the request."""
        response = await self._send(arguments)
        try:
            found = response.json()
        except ValueError:
            return ToolResult(response.text)
        wraps = not isinstance(found, dict) or (self.output_schema is not None and self.output_schema.get(WRAPPED))
        return ToolResult(structured_content={"result": found} if wraps else found)


class OpenAPIResource(Operation, Resource):
    """Resource of a route without variables."""

    KEY_PREFIX: ClassVar[str] = "resource"

    async def read(self) -> ResourceResult:
        """Send the request."""
        return await self._read({})


class OpenAPIResourceTemplate(Operation, ResourceTemplate):
    """Resource template of a route with variables in its path."""

    KEY_PREFIX: ClassVar[str] = "template"

    async def read(self, arguments: dict[str, Any]) -> ResourceResult:
        """Send the request."""
        return await self._read(arguments)
