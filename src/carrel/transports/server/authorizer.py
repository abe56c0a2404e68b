"""Who may come in over HTTP: what a transport asks of an authorization, and what follows from the answers.

``carrel.security`` has authorizations. This module knows none of them.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any, Protocol

from carrel.protocol.principal import Caller, Challenge
from carrel.protocol.server import Batch, Call, Event
from carrel.transports.server.http_request import Headers, Rejection

__all__ = ["Authorizer", "Lease", "client_of", "let_in", "owner_of", "permit"]

#: The longest time that an event loop is asked to wait for, in seconds.
MAX_DELAY = 7 * 24 * 3600.0


class Authorizer(Protocol):
    """Says who sends a request, and whether they may. ``path`` is where the endpoint is in this application."""

    def document(self, scope: dict[str, Any], path: str) -> bytes | Challenge | None:
        """Return the document that tells clients how to be let in, if a request asks for that."""

    async def identify(self, scope: dict[str, Any], headers: Headers, path: str) -> Caller | Challenge:
        """Find out who sent a request, and take what proves it out of ``headers``."""

    def permit(self, caller: Caller, event: Call | Batch) -> Challenge | None:
        """Return what a caller lacks for a call or a batch; None if nothing."""

    async def stop(self) -> None:
        """Let go of connections. May be called more than once, and does not end the use of this."""


async def let_in(authorizer: Authorizer, scope: dict[str, Any], headers: Headers, path: str) -> Caller:
    """Return who sent a request.

    Raises:
        Rejection: they may not come in.
    """
    caller = await authorizer.identify(scope, headers, path)
    if isinstance(caller, Challenge):
        raise Rejection(caller.status, caller.message, caller.headers)
    return caller


def permit(authorizer: Authorizer | None, caller: Caller | None, event: Event) -> None:
    """Check that a caller may do what a message asks for, and note on each call whose it is.

    Raises:
        Rejection: something lacks.
    """
    if authorizer is None or caller is None or not isinstance(event, Call | Batch):
        return
    lack = authorizer.permit(caller, event)
    if lack is not None:
        raise Rejection(lack.status, lack.message, lack.headers)
    for call in (event,) if isinstance(event, Call) else event.events:
        if isinstance(call, Call):
            call.principal = caller.principal


def owner_of(caller: Caller | None) -> str | None:
    """Return whom a session belongs to that a caller opens; only they may use it."""
    return None if caller is None else caller.principal.id


def client_of(scope: dict[str, Any], caller: Caller | None) -> str:
    """Return the client whose limits hold for a request: its principal, or else the address that it comes from.

    Of IPv6 addresses the first 64 bits count, as one household or one machine has all the others.
    """
    if caller is not None:
        return caller.principal.id
    peer = scope.get("client")
    address: str = peer[0] if peer else ""
    return address_group(address)


def address_group(address: str) -> str:
    """Return the addresses that count as one: an IPv4 address itself, of IPv6 the first 64 bits."""
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
    """Calls ``end`` when the token of a caller runs out, unless a newer one has been seen.

    A stream that was opened with a token would otherwise go on for as long as the client likes.
    """

    __slots__ = ("_end", "_expires", "_timer")

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._expires = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, caller: Caller | None) -> None:
        """Note a token that has been seen."""
        expires = None if caller is None else caller.principal.expires
        if expires is None or expires <= self._expires:
            return
        self._expires = expires
        self.cancel()
        delay = expires - time.time()
        if delay < MAX_DELAY:
            self._timer = asyncio.get_running_loop().call_later(max(delay, 0.0), self._end)

    def cancel(self, _: Any = None) -> None:
        """Do not end anything any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
