"""Names for people."""

from carrel.compat.mcp2 import types

__all__ = ["get_display_name"]


def get_display_name(
    obj: types.Tool | types.Resource | types.Prompt | types.ResourceTemplate | types.Implementation,
) -> str:
    """Return the title of an object, or else its name; of a tool also the title in its annotations."""
    if obj.title is not None:
        return str(obj.title)
    if isinstance(obj, types.Tool) and obj.annotations is not None and obj.annotations.title is not None:
        return str(obj.annotations.title)
    return str(obj.name)
