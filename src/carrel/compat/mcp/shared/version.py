"""Revisions of the protocol that the face of ``mcp`` names."""

from carrel.compat.mcp.types.base import LATEST_PROTOCOL_VERSION

SUPPORTED_PROTOCOL_VERSIONS: list[str] = ["2024-11-05", "2025-03-26", "2025-06-18", LATEST_PROTOCOL_VERSION]
