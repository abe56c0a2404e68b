"""Resources of a server."""

from carrel.compat.fastmcp.resources.resource import (
    FunctionResource,
    Resource,
    ResourceContent,
    ResourceResult,
    resource,
)
from carrel.compat.fastmcp.resources.security import ResourceSecurity
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.resources.types import (
    BinaryResource,
    DirectoryResource,
    FileResource,
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
    "ResourceContent",
    "ResourceResult",
    "ResourceSecurity",
    "ResourceTemplate",
    "TextResource",
    "resource",
]
