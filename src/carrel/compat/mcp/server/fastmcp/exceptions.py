"""Exceptions of the face of ``mcp.server.fastmcp``."""

__all__ = ["FastMCPError", "InvalidSignature", "ResourceError", "ToolError", "ValidationError"]


class FastMCPError(Exception):
    """Base class of these exceptions."""


class ValidationError(FastMCPError):
    """Parameters or results that are not valid."""


class ResourceError(FastMCPError):
    """Failure of a resource."""


class ToolError(FastMCPError):
    """Failure of a tool, with a message for the model."""


class InvalidSignature(Exception):
    """Signature that a tool, resource or prompt cannot have."""
