"""Examination of MCP servers: checks against the specification, findings with advice, and a score."""
