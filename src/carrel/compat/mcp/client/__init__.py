"""Clients: the face of ``mcp.client``."""
