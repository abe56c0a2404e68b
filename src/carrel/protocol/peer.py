"""Peer: the revision, identity and capabilities of a client."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from carrel.protocol.revision import Revision
from carrel.wire.base import ClientCapabilities, Implementation

__all__ = ["Peer"]


class Peer(msgspec.Struct):
    """The client of a handshake session, or of one stateless request.

    ``log_level`` is the minimum severity of the log messages it wants, a number of ``wire.utilities.SEVERITY``; None
    means no log messages.
    """

    revision: Revision
    client: Implementation | None = None
    capabilities: ClientCapabilities | None = None
    log_level: int | None = None

    def settings(self, extension: str) -> Any:
        """Return the settings of an extension that the client declares, {} if empty; None if it does not declare it."""
        if self.capabilities is None or self.capabilities.extensions is UNSET:
            return None
        return self.capabilities.extensions.get(extension)
