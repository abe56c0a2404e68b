"""Client transport over stdio: the same in both generations."""

from carrel.compat.mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

__all__ = ["StdioServerParameters", "get_default_environment", "stdio_client"]
