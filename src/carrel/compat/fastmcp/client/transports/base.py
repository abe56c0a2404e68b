"""Base of the transports of a client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from carrel.compat.fastmcp.client.session import Session

__all__ = ["ClientTransport"]


class ClientTransport:
    """Transport to a server. Subclasses define ``connect_session``."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session that is not initialized yet."""
        raise NotImplementedError
        yield

    def set_auth(self, auth: Any) -> None:
        """Raise ValueError: only HTTP has credentials."""
        raise ValueError("This transport does not support auth")

    def set_verify(self, verify: Any) -> None:
        """Raise ValueError: only HTTP has certificates."""
        raise ValueError("The 'verify' parameter is only supported for HTTP transports.")

    async def close(self) -> None:
        """Do nothing: the transport is closed with the session."""
