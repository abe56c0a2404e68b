"""MCP Apps: tools with pages (the extension ``io.modelcontextprotocol/ui``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from carrel.compat.mcp2.server.extension import Extension, ResourceBinding, ToolBinding
from carrel.compat.mcp2.server.mcpserver.resources.base import Resource
from carrel.compat.mcp2.server.mcpserver.resources.types import TextResource
from carrel.compat.mcp2.types.base import MCPModel

__all__ = [
    "APP_MIME_TYPE",
    "EXTENSION_ID",
    "Apps",
    "ResourceCsp",
    "ResourcePermissions",
    "Visibility",
    "client_supports_apps",
]

EXTENSION_ID = "io.modelcontextprotocol/ui"
APP_MIME_TYPE = "text/html;profile=mcp-app"
Visibility: TypeAlias = Literal["model", "app"]


class ResourcePermissions(MCPModel):
    """Permissions that a page asks for."""

    camera: dict[str, Any] | None = None
    microphone: dict[str, Any] | None = None
    geolocation: dict[str, Any] | None = None
    clipboard_write: dict[str, Any] | None = None


class ResourceCsp(MCPModel):
    """Domains that a page uses."""

    connect_domains: list[str] | None = None
    resource_domains: list[str] | None = None
    frame_domains: list[str] | None = None
    base_uri_domains: list[str] | None = None


class Apps(Extension):
    """Extension with tools that have pages: resources with the scheme ``ui``."""

    identifier = EXTENSION_ID

    def __init__(self) -> None:
        self._tools: list[tuple[ToolBinding, str]] = []
        self._resources: list[ResourceBinding] = []

    def tool(
        self,
        *,
        resource_uri: str,
        visibility: Sequence[Visibility] | None = None,
        meta: dict[str, Any] | None = None,
        **tool_kwargs: Any,
    ) -> Callable[[Any], Any]:
        """Register the decorated function as a tool with a page.

        Raises:
            ValueError: the URI has another scheme, or ``meta`` has the key "ui".
        """
        _check_scheme(resource_uri)
        if meta and "ui" in meta:
            raise ValueError("Apps.tool() owns _meta['ui']; pass resource_uri=/visibility= instead of a 'ui' meta key")
        ui: dict[str, Any] = {"resourceUri": resource_uri}
        if visibility is not None:
            ui["visibility"] = list(visibility)

        def decorator(fn: Any) -> Any:
            self._tools.append((ToolBinding(fn, {**(meta or {}), "ui": ui}, tool_kwargs), resource_uri))
            return fn

        return decorator

    def add_html_resource(
        self,
        uri: str,
        html: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        csp: ResourceCsp | None = None,
        permissions: ResourcePermissions | None = None,
        domain: str | None = None,
        prefers_border: bool | None = None,
    ) -> None:
        """Register a page.

        Raises:
            ValueError: the URI has another scheme.
        """
        details = {
            "csp": None if csp is None else csp.model_dump(by_alias=True, exclude_none=True),
            "permissions": None if permissions is None else permissions.model_dump(by_alias=True, exclude_none=True),
            "domain": domain,
            "prefersBorder": prefers_border,
        }
        ui = {key: value for key, value in details.items() if value is not None}
        self.add_resource(
            TextResource(
                uri=uri,
                name=name or uri,
                title=title,
                description=description,
                mime_type=APP_MIME_TYPE,
                meta={"ui": ui} if ui else None,
                text=html,
            )
        )

    def add_resource(self, resource: Resource) -> None:
        """Register a page that is a resource already.

        Raises:
            ValueError: its URI has another scheme, or it has another type.
        """
        _check_scheme(resource.uri)
        if "mime_type" not in resource.model_fields_set:
            resource = resource.model_copy(update={"mime_type": APP_MIME_TYPE})
        elif resource.mime_type != APP_MIME_TYPE:
            raise ValueError(f"MCP Apps resources are served as {APP_MIME_TYPE!r}, got {resource.mime_type!r}")
        self._resources.append(ResourceBinding(resource))

    def tools(self) -> Sequence[ToolBinding]:
        """Return the tools.

        Raises:
            ValueError: a page is not registered.
        """
        known = {binding.resource.uri for binding in self._resources}
        for tool, uri in self._tools:
            if uri not in known:
                raise ValueError(
                    f"Apps tool {tool.fn.__name__!r} binds resource_uri {uri!r}, but no such resource "
                    "is registered; add it with add_html_resource() or add_resource()"
                )
        return [tool for tool, _ in self._tools]

    def resources(self) -> Sequence[ResourceBinding]:
        """Return the pages."""
        return self._resources


def client_supports_apps(ctx: Any) -> bool:
    """Return whether the client of a request shows pages."""
    declared = ctx.session.client_capabilities
    settings = ((declared.extensions if declared is not None else None) or {}).get(EXTENSION_ID)
    kinds = None if settings is None else settings.get("mimeTypes")
    return isinstance(kinds, list | tuple) and APP_MIME_TYPE in kinds


def _check_scheme(uri: str) -> None:
    if not uri.startswith("ui://"):
        raise ValueError(f"MCP Apps URIs must use the ui:// scheme, got {uri!r}")
