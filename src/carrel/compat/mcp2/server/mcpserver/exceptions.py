"""Exceptions of servers."""

__all__ = [
    "InvalidSignature",
    "MCPServerError",
    "ResourceError",
    "ResourceNotFoundError",
    "ToolError",
    "UnexpectedResourceError",
    "UnexpectedToolError",
]


class MCPServerError(Exception):
    """Base of the errors of servers."""


class ResourceError(MCPServerError):
    """A resource cannot be read, for a reason that clients may know."""


class ResourceNotFoundError(ResourceError):
    """There is no such resource."""


class UnexpectedResourceError(ResourceError):
    """The function of a resource failed. ``__cause__`` has the reason, which clients do not get."""


class ToolError(MCPServerError):
    """A tool failed, for a reason that the model may know."""


class UnexpectedToolError(ToolError):
    """The function of a tool failed. ``__cause__`` has the reason, which clients do not get."""


class InvalidSignature(Exception):
    """A function cannot be used, because of its signature."""
