"""Transport of a server over standard input and output: the same in both generations."""

from carrel.compat.mcp.server.stdio import stdio_server

__all__ = ["stdio_server"]
