"""Resources of a server."""

from carrel.compat.mcp2.server.mcpserver.resources.base import Resource
from carrel.compat.mcp2.server.mcpserver.resources.resource_manager import ResourceManager
from carrel.compat.mcp2.server.mcpserver.resources.templates import (
    DEFAULT_RESOURCE_SECURITY,
    ResourceSecurity,
    ResourceSecurityError,
    ResourceTemplate,
)
from carrel.compat.mcp2.server.mcpserver.resources.types import (
    BinaryResource,
    DirectoryResource,
    FileResource,
    FunctionResource,
    HttpResource,
    TextResource,
)

__all__ = [
    "DEFAULT_RESOURCE_SECURITY",
    "BinaryResource",
    "DirectoryResource",
    "FileResource",
    "FunctionResource",
    "HttpResource",
    "Resource",
    "ResourceManager",
    "ResourceSecurity",
    "ResourceSecurityError",
    "ResourceTemplate",
    "TextResource",
]
