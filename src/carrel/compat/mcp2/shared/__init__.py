"""Exceptions, messages and contexts that servers and clients share: the face of ``mcp.shared``."""
