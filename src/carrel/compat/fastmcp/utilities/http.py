"""Free ports."""

from __future__ import annotations

import socket

__all__ = ["find_available_port"]


def find_available_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
