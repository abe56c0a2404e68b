"""Revisions of the protocol: the face of ``mcp_types.version``."""

from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REVISIONS

__all__ = [
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "KNOWN_PROTOCOL_VERSIONS",
    "LATEST_HANDSHAKE_VERSION",
    "LATEST_MODERN_VERSION",
    "LATEST_PROTOCOL_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "OLDEST_SUPPORTED_VERSION",
    "SUPPORTED_PROTOCOL_VERSIONS",
    "is_version_at_least",
]

KNOWN_PROTOCOL_VERSIONS: tuple[str, ...] = tuple(sorted(REVISIONS))
HANDSHAKE_PROTOCOL_VERSIONS: tuple[str, ...] = tuple(
    name for name in KNOWN_PROTOCOL_VERSIONS if not REVISIONS[name].stateless
)
MODERN_PROTOCOL_VERSIONS: tuple[str, ...] = tuple(name for name in KNOWN_PROTOCOL_VERSIONS if REVISIONS[name].stateless)
SUPPORTED_PROTOCOL_VERSIONS: tuple[str, ...] = KNOWN_PROTOCOL_VERSIONS
LATEST_PROTOCOL_VERSION: str = KNOWN_PROTOCOL_VERSIONS[-1]
LATEST_HANDSHAKE_VERSION: str = LATEST_HANDSHAKE.name
LATEST_MODERN_VERSION: str = LATEST.name
OLDEST_SUPPORTED_VERSION: str = HANDSHAKE_PROTOCOL_VERSIONS[0]


def is_version_at_least(version: str, minimum: str) -> bool:
    """Return whether a revision is known, and not older than ``minimum``.

    Raises:
        ValueError: ``minimum`` is not a known revision.
    """
    if minimum not in KNOWN_PROTOCOL_VERSIONS:
        raise ValueError(f"minimum must be a known protocol version, got {minimum!r}")
    known = KNOWN_PROTOCOL_VERSIONS
    return version in known and known.index(version) >= known.index(minimum)
