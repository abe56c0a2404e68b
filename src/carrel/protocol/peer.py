"""What is known about the other side."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from carrel.protocol.revision import Revision
from carrel.wire.base import ClientCapabilities, Implementation

__all__ = ["Peer"]


class Peer(msgspec.Struct):
    """The client of a handshake session, or of one stateless request.

    ``log_level`` is the least severity of the log messages it wants, a number of ``wire.utilities.SEVERITY``; None
    means that it wants none.
    """

    revision: Revision
    client: Implementation | None = None
    capabilities: ClientCapabilities | None = None
    log_level: int | None = None

    def settings(self, extension: str) -> Any:
        """Return what the client says about an extension that it declares, {} if nothing; None if it does not."""
        if self.capabilities is None or self.capabilities.extensions is UNSET:
            return None
        return self.capabilities.extensions.get(extension)
