"""Placeholder credentials for a session without a principal, if users log in at the server individually."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from carrel.errors import LoginRequired

if TYPE_CHECKING:
    from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["FOR_CLIENT", "NoGrant"]

FOR_CLIENT: ContextVar[bool] = ContextVar("for_client", default=False)
"""Whether a client's request is in progress, whose error may contain the URL of the login page."""


class NoGrant:
    """Credentials for a session without a principal: send no headers, and raise LoginRequired on status 401."""

    principal = ""
    extensions: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return no headers."""
        return {}

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Raise LoginRequired if the upstream requires authorization; otherwise, return False: do not retry.

        Raises:
            LoginRequired: the upstream responded with status 401.
        """
        if rejection.status == 401:
            raise LoginRequired(f"{self._upstream} needs its users to log in, each for themselves")
        return False

    async def close(self) -> None:
        """Do nothing."""
