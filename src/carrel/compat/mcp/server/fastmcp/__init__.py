"""Server with decorators for tools, resources and prompts: the face of ``mcp.server.fastmcp``."""

from carrel.compat.mcp.server.fastmcp.context import Context
from carrel.compat.mcp.server.fastmcp.server import FastMCP
from carrel.compat.mcp.server.fastmcp.utilities.types import Audio, Image
from carrel.compat.mcp.types.base import Icon
from carrel.protocol import VERSION

__version__ = VERSION

__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]
