"""Credentials of the session of no principal, with a server at which users log in for themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from carrel.errors import LoginRequired

__all__ = ["FOR_CLIENT", "NoGrant"]

FOR_CLIENT: ContextVar[bool] = ContextVar("for_client", default=False)
"""Whether a request of a client is in progress that may tell the user to log in."""


class NoGrant:
    """Credentials of the session of no principal: where a grant is needed, there is none."""

    principal = ""
    extensions: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return no headers."""
        return {}

    async def refused(
        self,
        url: str,
        status: int,
        challenges: Sequence[str],
        revision: str | None,
        *,
        sent: Mapping[str, str] | None = None,
        nonce: str | None = None,
    ) -> bool:
        """Refuse, if the upstream wants authorization.

        Raises:
            LoginRequired: it does.
        """
        if status == 401:
            raise LoginRequired(f"{self._upstream} needs its users to log in, each for themselves")
        return False

    async def close(self) -> None:
        """Do nothing."""
