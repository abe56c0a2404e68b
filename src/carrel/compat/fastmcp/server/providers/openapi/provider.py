"""Provider of the operations of an API that is described in OpenAPI 3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.server.providers.openapi.components import (
    OpenAPIResource,
    OpenAPIResourceTemplate,
    OpenAPITool,
)
from carrel.compat.fastmcp.server.providers.openapi.routing import (
    ComponentFn,
    MCPType,
    RouteMap,
    RouteMapFn,
    route_map_of,
)
from carrel.compat.fastmcp.tools.result import WRAPPED
from carrel.compat.fastmcp.utilities.openapi import HTTPRoute, parse_openapi_to_http_routes
from carrel.log import Log

__all__ = ["OpenAPIProvider", "asgi_client"]

logger = Log("fastmcp.server.providers.openapi")
MAX_NAME = 56


class OpenAPIProvider(Provider):
    """Provider of tools, resources and templates that send requests with a client of httpx.

    Raises:
        ValueError: the description is not valid, or names no server and there is no client.
    """

    def __init__(
        self,
        openapi_spec: dict[str, Any],
        client: Any = None,
        *,
        route_maps: Sequence[RouteMap] | None = None,
        route_map_fn: RouteMapFn | None = None,
        mcp_component_fn: ComponentFn | None = None,
        mcp_names: dict[str, str] | None = None,
        tags: set[str] | None = None,
        validate_output: bool = True,
    ) -> None:
        super().__init__()
        self._owns_client = client is None
        self._client = _client_of(openapi_spec) if client is None else client
        self._component_fn = mcp_component_fn
        self._names: dict[str, str] = mcp_names or {}
        self._validates = validate_output
        self._used: Counter[tuple[MCPType, str]] = Counter()
        self._components: dict[MCPType, list[Any]] = {kind: [] for kind in MCPType}
        for route in parse_openapi_to_http_routes(openapi_spec):
            chosen = route_map_of(route, route_maps or ())
            kind = self._kind_of(route, chosen.mcp_type, route_map_fn)
            if kind is not MCPType.EXCLUDE:
                self._components[kind].append(self._create(route, kind, chosen.mcp_tags | (tags or set())))

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Close the client at the end, unless it was given."""
        if not self._owns_client:
            yield
            return
        async with self._client:
            yield

    def _kind_of(self, route: HTTPRoute, kind: MCPType, choose: RouteMapFn | None) -> MCPType:
        if choose is None:
            return kind
        try:
            return choose(route, kind) or kind
        except Exception as error:
            logger.warning("Error in route_map_fn for %s %s: %s", route.method, route.path, error)
            return kind

    def _name_of(self, route: HTTPRoute, kind: MCPType) -> str:
        operation = route.operation_id
        given = self._names.get(operation or "") or (operation or "").split("__")[0]
        given = given or route.summary or f"{route.method}_{route.path}"
        slug = re.sub(r"_+", "_", re.sub(r"\W", "", re.sub(r"[\s\-.]+", "_", given), flags=re.ASCII)).strip("_")
        name = slug[:MAX_NAME]
        self._used[kind, name] += 1
        count = self._used[kind, name]
        return name if count == 1 else f"{name}_{count}"

    def _create(self, route: HTTPRoute, kind: MCPType, tags: set[str]) -> Any:
        name = self._name_of(route, kind)
        details: dict[str, Any] = {"client": self._client, "route": route, "name": name, "tags": {*route.tags, *tags}}
        told = route.description or route.summary
        component: Any
        if kind is MCPType.TOOL:
            component = OpenAPITool(
                description=told or f"Executes {route.method} {route.path}",
                parameters=route.flat_param_schema,
                output_schema=self._output_of(route),
                **details,
            )
        elif kind is MCPType.RESOURCE:
            component = OpenAPIResource(
                uri=f"resource://{name}",  # type: ignore[arg-type]
                description=told or f"Represents {route.path}",
                mime_type=route.mime_type,
                **details,
            )
        else:
            variables = [each for each in route.parameters if each.location == "path"]
            path = "".join(f"/{{{variable}}}" for variable in sorted(each.name for each in variables))
            component = OpenAPIResourceTemplate(
                uri_template=f"resource://{name}{path}",
                description=told or f"Template for {route.path}",
                mime_type=route.mime_type,
                parameters={
                    "type": "object",
                    "properties": {
                        each.name: {**each.schema_, **({"description": each.description} if each.description else {})}
                        for each in variables
                    },
                    "required": [each.name for each in variables],
                },
                **details,
            )
        return self._customized(route, component)

    def _output_of(self, route: HTTPRoute) -> dict[str, Any] | None:
        schema = route.output_schema
        if schema is None or self._validates:
            return schema
        kept = {WRAPPED: True} if schema.get(WRAPPED) else {}
        return {"type": "object", "additionalProperties": True, **kept}

    def _customized(self, route: HTTPRoute, component: Any) -> Any:
        if self._component_fn is not None:
            try:
                self._component_fn(route, component)
            except Exception as error:
                logger.warning("Error in component_fn for %s: %s", component.name, error)
        return component

    async def _list_tools(self) -> Sequence[Any]:
        return self._components[MCPType.TOOL]

    async def _list_resources(self) -> Sequence[Any]:
        return self._components[MCPType.RESOURCE]

    async def _list_resource_templates(self) -> Sequence[Any]:
        return self._components[MCPType.RESOURCE_TEMPLATE]

    async def get_tasks(self) -> Sequence[Any]:
        """Return no component: requests do not run as tasks."""
        return []


def _client_of(description: dict[str, Any]) -> Any:
    import httpx  # type: ignore[import-not-found,unused-ignore]

    servers = description.get("servers") or [{}]
    url = servers[0].get("url")
    if not url:
        raise ValueError(
            "No server URL found in OpenAPI spec. Either add a 'servers' entry to the spec or provide an "
            "httpx.AsyncClient explicitly."
        )
    for name, variable in servers[0].get("variables", {}).items():
        url = url.replace(f"{{{name}}}", variable.get("default", ""))
    return httpx.AsyncClient(base_url=url, timeout=30)


def asgi_client(app: Any, options: dict[str, Any] | None) -> Any:
    """Return a client of an application in this process."""
    import httpx  # type: ignore[import-not-found,unused-ignore]

    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), **{"base_url": "http://fastapi", **(options or {})}
    )
