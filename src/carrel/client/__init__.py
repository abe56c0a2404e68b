"""MCP client for servers of every protocol revision."""
