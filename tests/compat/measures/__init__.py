"""Measures of how much of the packages ``mcp`` and ``fastmcp`` runs on Carrel."""
