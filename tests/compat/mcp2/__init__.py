"""Tests of the face of ``mcp`` 2."""
