"""Parts of the face of ``mcp.server.mcpserver``."""
