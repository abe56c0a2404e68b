"""Names for people."""

from carrel.compat.mcp.types import Prompt, Resource, ResourceTemplate, Tool
from carrel.compat.mcp.types.base import Implementation

__all__ = ["get_display_name"]


def get_display_name(obj: Tool | Resource | Prompt | ResourceTemplate | Implementation) -> str:
    """Return the title of an object, or else its name; of a tool also the title in its annotations."""
    if obj.title is not None:
        return obj.title
    if isinstance(obj, Tool) and obj.annotations is not None and obj.annotations.title is not None:
        return str(obj.annotations.title)
    return str(obj.name)
