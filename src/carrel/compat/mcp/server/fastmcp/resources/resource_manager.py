"""Resources and templates of a server."""

from carrel.compat import managers
from carrel.compat.mcp.server.fastmcp.resources.templates import ResourceTemplate

__all__ = ["ResourceManager"]


class ResourceManager(managers.ResourceManager):
    """Resources by URI, of which the first stays; and templates."""

    template_type = ResourceTemplate
