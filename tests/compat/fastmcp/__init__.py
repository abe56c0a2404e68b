"""Tests of the face of ``fastmcp``."""
