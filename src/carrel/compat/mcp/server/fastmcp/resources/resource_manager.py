"""Registry of the resources and templates of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.fastmcp.resources.templates import ResourceTemplate

__all__ = ["ResourceManager"]

logger = get_logger(__name__)


class ResourceManager:
    """Resources by URI, of which the first stays; and templates."""

    template_type: type[Any] = ResourceTemplate

    def __init__(self, warn_on_duplicate_resources: bool = True, *, resources: list[Any] | None = None) -> None:
        self.warn_on_duplicate_resources = warn_on_duplicate_resources
        self._resources: dict[str, Any] = {}
        self._templates: dict[str, Any] = {}
        for resource in resources or ():
            self.add_resource(resource)

    def add_resource(self, resource: Any) -> Any:
        """Register a resource, unless there is one of that URI."""
        known = self._resources.setdefault(str(resource.uri), resource)
        if known is not resource and self.warn_on_duplicate_resources:
            logger.warning("Resource already exists: %s", resource.uri)
        return known

    def add_template(self, fn: Callable[..., Any], uri_template: str, **details: Any) -> Any:
        """Register a function as a template."""
        template = self.template_type.from_function(fn, uri_template, **details)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: Any, context: Any = None) -> Any:
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

    def list_resources(self) -> list[Any]:
        """Return all resources, in the order of their registration."""
        return list(self._resources.values())

    def list_templates(self) -> list[Any]:
        """Return all templates, in the order of their registration."""
        return list(self._templates.values())
