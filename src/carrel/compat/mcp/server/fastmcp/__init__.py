"""Server with decorators for tools, resources and prompts: the face of ``mcp.server.fastmcp``."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily
from carrel.protocol import VERSION

__version__ = VERSION

__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]

if TYPE_CHECKING:
    from carrel.compat.mcp.server.fastmcp.context import Context
    from carrel.compat.mcp.server.fastmcp.server import FastMCP
    from carrel.compat.mcp.server.fastmcp.utilities.types import Audio, Image
    from carrel.compat.mcp.types.base import Icon
else:
    names = {"Context": "context", "FastMCP": "server", "Icon": "server"}
    names |= dict.fromkeys(("Audio", "Image"), "utilities.types")
    names |= {module: module for module in ("context", "exceptions", "prompts", "resources", "server", "tools")}
    __getattr__ = lazily(__name__, names)
