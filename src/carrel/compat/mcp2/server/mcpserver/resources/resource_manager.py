"""Resources and templates of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import AnyUrl

from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.exceptions import ResourceNotFoundError
from carrel.compat.mcp2.server.mcpserver.resources.base import Resource
from carrel.compat.mcp2.server.mcpserver.resources.templates import ResourceSecurityError, ResourceTemplate
from carrel.compat.mcp2.shared.logging import get_logger

__all__ = ["ResourceManager"]

logger = get_logger(__name__)


class ResourceManager:
    """Resources by URI, of which the first stays; and templates."""

    def __init__(self, warn_on_duplicate_resources: bool = True, *, resources: list[Resource] | None = None) -> None:
        self.warn_on_duplicate_resources = warn_on_duplicate_resources
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        for resource in resources or ():
            self.add_resource(resource)

    def add_resource(self, resource: Resource) -> Resource:
        """Register a resource, unless there is one of that URI."""
        known = self._resources.setdefault(str(resource.uri), resource)
        if known is not resource and self.warn_on_duplicate_resources:
            logger.warning("Resource already exists: %s", resource.uri)
        return known

    def add_template(self, fn: Callable[..., Any], uri_template: str, **details: Any) -> ResourceTemplate:
        """Register a function as a template."""
        template = ResourceTemplate.from_function(fn, uri_template, **details)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: AnyUrl | str, context: Context[Any, Any]) -> Any:
        """Return the resource of a URI, or create it from a template.

        Raises:
            ResourceNotFoundError: no resource or template has this URI, or a value is refused.
            ResourceError: the function of the template failed.
        """
        named = str(uri)
        if named in self._resources:
            return self._resources[named]
        for template in self._templates.values():
            try:
                params = template.matches(named)
            except ResourceSecurityError as error:
                raise ResourceNotFoundError(f"Unknown resource: {uri}") from error
            if params is not None:
                return await template.create_resource(named, params, context)
        raise ResourceNotFoundError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        """Return all resources, in the order of their registration."""
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        """Return all templates, in the order of their registration."""
        return list(self._templates.values())
