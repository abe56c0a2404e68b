"""Resources and templates of a server."""

from __future__ import annotations

from typing import Any

from pydantic import AnyUrl

from carrel.compat import managers
from carrel.compat.mcp2.server.mcpserver.exceptions import ResourceNotFoundError
from carrel.compat.mcp2.server.mcpserver.resources.security import ResourceSecurityError

__all__ = ["ResourceManager"]


class ResourceManager(managers.ResourceManager):
    """Resources by URI, of which the first stays; and templates."""

    @property
    def template_type(self) -> type[Any]:  # type: ignore[override]
        """The model of templates, which is created on first use."""
        from carrel.compat.mcp2.server.mcpserver.resources.templates import ResourceTemplate

        return ResourceTemplate

    async def get_resource(self, uri: AnyUrl | str, context: Any = None) -> Any:
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
