"""Client transport over HTTP+SSE: the same in both generations."""

from carrel.compat.mcp.client.sse import sse_client

__all__ = ["sse_client"]
