"""HTTP authorization interface of server transports, and checks of callers, session owners and token expiry.

``carrel.security`` has implementations. This module does not depend on them.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Protocol

from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse
from carrel.protocol.server import Call, ClientBatch, ErrorResponse, Event
from carrel.transports.server.http_request import Headers, Rejection

if TYPE_CHECKING:
    from carrel.transports.server.route import Route

__all__ = ["Authorizer", "Lease", "client_of", "let_in", "owner_of", "permit"]

#: The longest delay of a timer, in seconds.
MAX_DELAY = 7 * 24 * 3600.0


class Authorizer(Protocol):
    """Authenticates and authorizes HTTP requests. ``path`` is the path of the endpoint in this application."""

    def document(self, scope: dict[str, Any], path: str) -> bytes | HTTPErrorResponse | None:
        """Return the protected resource metadata document, if the request is for that."""

    def routes(self, path: str) -> Sequence[Route]:
        """Return the routes of the authorizer, such as the endpoints of an authorization server."""

    async def identify(
        self, scope: dict[str, Any], headers: Headers, path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse | None:
        """Authenticate a request, and remove the credentials from ``headers``. None accepts an anonymous request."""

    def permit(self, caller: AuthenticatedCaller, event: Call | ClientBatch) -> HTTPErrorResponse | None:
        """Authorize a call or batch: return a challenge if the caller lacks permission, or None."""

    async def stop(self) -> None:
        """Close connections. May be called more than once; the authorizer remains usable."""


async def let_in(
    authorizer: Authorizer, scope: dict[str, Any], headers: Headers, path: str
) -> AuthenticatedCaller | None:
    """Authenticate a request and return its caller, or None for an anonymous request.

    Raises:
        Rejection: authentication failed.
    """
    caller = await authorizer.identify(scope, headers, path)
    if isinstance(caller, HTTPErrorResponse):
        raise Rejection(caller.status, caller.message, caller.headers)
    return caller


def permit(authorizer: Authorizer | None, caller: AuthenticatedCaller | None, event: Event) -> None:
    """Authorize the calls of a message, and set the principal of each.

    Raises:
        Rejection: the caller is not authorized.
    """
    if authorizer is None or caller is None:
        return
    if isinstance(event, Call | ClientBatch):
        lack = authorizer.permit(caller, event)
        if lack is not None:
            raise Rejection(lack.status, lack.message, lack.headers)
    for each in event.events if isinstance(event, ClientBatch) else (event,):
        call = each.call if isinstance(each, ErrorResponse) else each
        if isinstance(call, Call):
            call.principal = caller.principal


def owner_of(caller: AuthenticatedCaller | None) -> str | None:
    """Return the owner of a session that a caller opens, its principal id; only the owner may use it."""
    return None if caller is None else caller.principal.id


def client_of(scope: dict[str, Any], caller: AuthenticatedCaller | None) -> str:
    """Return the client key of a request for limits: its user, or else its address group.

    Of IPv6 addresses only the first 64 bits count, as one household or one machine has all the others.
    """
    if caller is not None:
        return caller.principal.user
    peer = scope.get("client")
    address: str = peer[0] if peer else ""
    return address_group(address)


def address_group(address: str) -> str:
    """Return the address group of a client for limits: an IPv4 address itself, of IPv6 the /64 network."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"


class Lease:
    """Timer that calls ``end`` when the caller's token expires, unless a newer token has been seen.

    Without it, a stream that was opened with a token would outlive the token.
    """

    __slots__ = ("_end", "_expires", "_timer")

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._expires = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, caller: AuthenticatedCaller | None) -> None:
        """Extend the lease to the expiry of a caller's token."""
        expires = None if caller is None else caller.principal.expires
        if expires is None or expires <= self._expires:
            return
        self._expires = expires
        self.cancel()
        delay = expires - time.time()
        if delay < MAX_DELAY:
            self._timer = asyncio.get_running_loop().call_later(max(delay, 0.0), self._end)

    def cancel(self, _: Any = None) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
