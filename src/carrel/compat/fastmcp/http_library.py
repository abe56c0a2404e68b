"""HTTP library of the program: ``httpx2`` for FastMCP 4 where it is installed, or ``httpx``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from carrel.compat.generation import fastmcp_generation

__all__ = ["httpx"]

if TYPE_CHECKING or fastmcp_generation() < 4 or find_spec("httpx2") is None:
    import httpx
else:
    httpx = import_module("httpx2")
