"""Resource of a function, where 3.x has it."""

from carrel.compat.fastmcp.resources.resource import FunctionResource, resource

__all__ = ["FunctionResource", "resource"]
