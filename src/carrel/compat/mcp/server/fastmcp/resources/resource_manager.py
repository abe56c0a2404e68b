"""Registry of the resources and templates of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.mcp.server.fastmcp.resources.base import Resource
from carrel.compat.mcp.server.fastmcp.resources.templates import ResourceTemplate
from carrel.log import Log

__all__ = ["ResourceManager"]

logger = Log(__name__)


class ResourceManager:
    """Resources by URI, the first one of a URI stays; and templates."""

    def __init__(self, warn_on_duplicate_resources: bool = True) -> None:
        self.warn_on_duplicate_resources = warn_on_duplicate_resources
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}

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

    async def get_resource(self, uri: Any, context: Any = None) -> Resource | None:
        """Return the resource of a URI, or create it from a template.

        Raises:
            ValueError: no resource or template has this URI, or the template's function failed.
        """
        named = str(uri)
        found = self._resources.get(named)
        if found is not None:
            return found
        for template in self._templates.values():
            values = template.matches(named)
            if values:
                try:
                    return await template.create_resource(named, values, context=context)
                except Exception as error:
                    raise ValueError(f"Error creating resource from template: {error}") from error
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        """Return all resources, in the order of their registration."""
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        """Return all templates, in the order of their registration."""
        return list(self._templates.values())
