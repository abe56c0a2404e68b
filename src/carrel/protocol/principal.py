"""Authenticated principals of requests, and authorization challenges (OAuth access tokens).

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb
    from carrel.uri.intervals import Intervals

__all__ = ["CERTIFICATE", "AuthenticatedCaller", "HTTPErrorResponse", "Principal", "View"]

#: Issuer of principals whose client has a certificate (mutual TLS). Issuers of tokens are URLs.
CERTIFICATE = "certificate"


class View:
    """Rights of a caller: which resources, tools and prompts it may use.

    Callers with the same rights have the same ``key``: encoded pages of lists are cached by it. Without ``hides``,
    every resource is visible to the caller, and no rule is checked. With ``everybody``, the lists of all callers are
    equal, so public caches may keep them. The attributes of a ``constant`` view never change: what a server makes of
    the view for a request, it keeps for the next one. If its decisions never change either, it is ``final``: a server
    caches them.
    """

    key: str = ""
    hides: bool = True
    everybody: bool = False
    constant: bool = False
    final: bool = False
    kept: View | None = None
    """The view that a server has made of a constant view."""

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource (its URI), a tool ("call") or a prompt ("get": its name)."""
        raise NotImplementedError

    def decider(self, verb: Verb) -> Callable[[str], bool]:
        """Return a function that returns whether a verb is allowed on a target, for many targets."""
        return partial(self.allows, verb)

    def selector(self, verb: Verb) -> Callable[[Sequence[str]], list[str]] | None:
        """Return a function that returns the allowed keys of a sorted list, or None if it is not faster than others."""
        return None

    def intervals(self, verb: Verb) -> Intervals | None:
        """Return intervals of keys that contain all targets of an allowed verb, to narrow lists, or None.

        Keys are URIs, or names of tools or prompts. Targets in the intervals are still checked one by one.
        """
        return None

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a resource template can name something on which a verb is allowed.

        ``head`` is what all its URIs begin with, ``location`` is one of them, with ``-`` for variables without a value.
        """
        return self.allows(verb, location)

    def implies_read(self, verb: Verb) -> bool:
        """Return whether every resource on which a verb is allowed may be read: then this is not checked again."""
        return False

    def permits(self, method: str) -> bool:
        """Return whether requests of a method are permitted: asked where a tool does the same as such a request."""
        return True

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource: caches must not share it."""
        return True


class Principal(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """Authenticated caller, as described by its verified access token or certificate. The token itself is not kept.

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
    view: View | None = None
    """Rights of the caller by its scopes; None if they hide nothing."""

    @property
    def id(self) -> str:
        """Identifier of the caller: equal for all tokens of one subject and one OAuth client."""
        return msgspec.json.encode((self.issuer, self.subject, self.client)).decode()

    @property
    def user(self) -> str:
        """Identifier of the subject for limits: equal for all OAuth clients of it, as it can register many."""
        return msgspec.json.encode((self.issuer, self.subject)).decode()

    def __repr__(self) -> str:
        return f"Principal({self.subject!r}, issuer={self.issuer!r}, client={self.client!r})"


class AuthenticatedCaller(msgspec.Struct, frozen=True):
    """Sender of one request. ``metadata`` is the URL of the protected resource metadata (RFC 9728), if there is one."""

    principal: Principal
    metadata: str | None = None


class HTTPErrorResponse(msgspec.Struct, frozen=True):
    """HTTP error response to a request that failed authorization; ``headers`` have the challenge (WWW-Authenticate)."""

    status: int
    message: str
    headers: list[tuple[bytes, bytes]]
