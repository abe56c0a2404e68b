"""Recipients of changes that are for one caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from carrel.protocol.server import Connection

__all__ = ["SameCaller"]


class SameCaller(msgspec.Struct, frozen=True):
    """Clients of one caller: the client of a connection, and all clients with the same principal id."""

    connection: Connection
    principal: str | None

    def include(self, connection: Connection) -> bool:
        """Return whether the client of a connection is one of them."""
        principal = connection.principal
        return connection is self.connection or (principal is not None and principal.id == self.principal)
