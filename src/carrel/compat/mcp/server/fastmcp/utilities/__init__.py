"""Parts of the face of ``mcp.server.fastmcp``."""
