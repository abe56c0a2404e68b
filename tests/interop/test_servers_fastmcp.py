"""``carrel.Client`` with servers of FastMCP."""

from __future__ import annotations

from carrel.errors import PeerError, ResourceNotFound
from interop.shelf import Newer, Shelf, client, over

__all__ = ["client"]


@over(("stdio", None), ("http", None), ("http", "2025-11-25"))
class TestFastMCP(Shelf, Newer):
    server = "fastmcp_4"
    newest = "2026-07-28"
    unknown = None
    missing = (ResourceNotFound, PeerError)  # before 2026-07-28 it has no code of its own for that
