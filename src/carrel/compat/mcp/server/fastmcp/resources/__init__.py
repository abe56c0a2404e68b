"""Resources of a server."""

from carrel.compat.mcp.server.fastmcp.resources.base import Resource
from carrel.compat.mcp.server.fastmcp.resources.resource_manager import ResourceManager
from carrel.compat.mcp.server.fastmcp.resources.templates import ResourceTemplate
from carrel.compat.mcp.server.fastmcp.resources.types import (
    BinaryResource,
    DirectoryResource,
    FileResource,
    FunctionResource,
    HttpResource,
    TextResource,
)

__all__ = [
    "BinaryResource",
    "DirectoryResource",
    "FileResource",
    "FunctionResource",
    "HttpResource",
    "Resource",
    "ResourceManager",
    "ResourceTemplate",
    "TextResource",
]
