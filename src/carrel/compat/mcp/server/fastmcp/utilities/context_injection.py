"""Contexts of functions that take one."""

from carrel.compat.mcp.server.fastmcp.context import find_context_parameter, inject_context

__all__ = ["find_context_parameter", "inject_context"]
