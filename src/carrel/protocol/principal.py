"""Authenticated principals of requests, and authorization challenges (OAuth access tokens).

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
    """Authenticated caller, as described by its verified access token. The token itself is not kept.

    ``expires`` is in seconds since the epoch. ``scopes`` are the granted scopes and those they imply;
    ``claims`` are all claims of the token or of its issuer about the caller.
    """

    subject: str
    issuer: str = ""
    client: str | None = None
    """The OAuth client that acts for the subject."""
    scopes: frozenset[str] = frozenset()
    audience: frozenset[str] = frozenset()
    """Audience of the token."""
    expires: float | None = None
    token_id: str | None = None
    """Identifier of the token in logs; reveals nothing about the token."""
    claims: Mapping[str, Any] = MappingProxyType({})
    readable: Callable[[str], bool] = _any
    """Returns whether the scopes permit reading the resource of a URI."""
    visible: Callable[[str], bool] | None = None
    """Returns whether the access rules let the caller see a resource, by its URI. None: every resource is visible."""
    guarded: Callable[[str], bool] = _any
    """Returns whether access rules hide a resource, by its URI, from some callers. Called only if ``view`` is set."""
    view: str = ""
    """Key shared by all callers that see the same resources; empty where every caller sees all."""

    def __post_init__(self) -> None:
        if self.visible is not None and not self.view:
            raise ConfigError("A principal to whom not everything is visible needs a view, which lists are kept under")

    @property
    def id(self) -> str:
        """Identifier of the caller: equal for all tokens of one subject and one OAuth client."""
        return msgspec.json.encode((self.issuer, self.subject, self.client)).decode()

    def __repr__(self) -> str:
        return f"Principal({self.subject!r}, issuer={self.issuer!r}, client={self.client!r})"


class Caller(msgspec.Struct, frozen=True):
    """Sender of one request. ``metadata`` is the URL of the protected resource metadata (RFC 9728), if there is one."""

    principal: Principal
    metadata: str | None = None


class Challenge(msgspec.Struct, frozen=True):
    """HTTP refusal of a request that failed authorization; ``headers`` have the challenge (WWW-Authenticate)."""

    status: int
    message: str
    headers: list[tuple[bytes, bytes]]
