"""Contents that reading a resource returns: the same type in both generations."""

from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents

__all__ = ["ReadResourceContents"]
