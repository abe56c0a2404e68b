"""HTTP+SSE of a server: the same in both generations."""

from carrel.compat.mcp.server.sse import SseServerTransport

__all__ = ["SseServerTransport"]
