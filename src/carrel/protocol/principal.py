"""Who calls, where the transport has a way to find out; and the answer to whoever may not.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from carrel.errors import ConfigError

__all__ = ["Caller", "Challenge", "Principal"]


def _any(_: str) -> bool:
    return True


class Principal(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """What is known of a caller from its access token, once the token has been verified. The token is not kept.

    ``expires`` is in seconds since the epoch. ``scopes`` hold what was granted and what that implies; ``claims`` are
    all that the token, or who issued it, says of the caller.
    """

    subject: str
    issuer: str = ""
    client: str | None = None
    """The application that acts for the subject."""
    scopes: frozenset[str] = frozenset()
    audience: frozenset[str] = frozenset()
    """Whom the token is for."""
    expires: float | None = None
    token_id: str | None = None
    """What the token is called in logs; it says nothing about the token itself."""
    claims: Mapping[str, Any] = MappingProxyType({})
    readable: Callable[[str], bool] = _any
    """Whether the scopes are enough to read the resource of a URI."""
    visible: Callable[[str], bool] | None = None
    """Whether rules for resources let the caller know of one, by its URI. None: it may know of every one."""
    guarded: Callable[[str], bool] = _any
    """Whether rules let only some callers know of a resource, by its URI. Asked only where there is a view."""
    view: str = ""
    """One text for all callers who may know of the same resources; empty where all callers may know of all."""

    def __post_init__(self) -> None:
        if self.visible is not None and not self.view:
            raise ConfigError("A principal to whom not everything is visible needs a view, which lists are kept under")

    @property
    def id(self) -> str:
        """One text per caller: the same for every token of a subject that one application holds."""
        return msgspec.json.encode((self.issuer, self.subject, self.client)).decode()

    def __repr__(self) -> str:
        return f"Principal({self.subject!r}, issuer={self.issuer!r}, client={self.client!r})"


class Caller(msgspec.Struct, frozen=True):
    """Who sent one request. ``metadata`` is the URL at which clients learn how to be let in, if there is one."""

    principal: Principal
    metadata: str | None = None


class Challenge(msgspec.Struct, frozen=True):
    """The refusal of a request that lacks what it takes, and what it would take."""

    status: int
    message: str
    headers: list[tuple[bytes, bytes]]
