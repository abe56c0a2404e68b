"""Version negotiation: ``server/discover`` for stateless revisions, the ``initialize`` handshake for older ones.

A server of a stateless revision responds to ``server/discover``, or returns an error code that only stateless revisions
define. After any other response, or a timeout, the client tries the handshake. If the server is unavailable for the
moment (``UNAVAILABLE_STATUSES``), connecting fails.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#backward-compatibility
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from carrel.client.connection import ClientConnection
from carrel.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNAVAILABLE_STATUSES,
    UNSUPPORTED_VERSION,
    HTTPStatusError,
    PeerError,
    ProtocolError,
    RequestTimeout,
)
from carrel.protocol.methods import DISCOVER, INITIALIZED, RequestType
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.wire.base import Implementation, Params, prepared
from carrel.wire.lifecycle import DiscoverResult, InitializeResult, ServerCapabilities

__all__ = ["STATELESS_ERRORS", "ServerFacts", "negotiate", "shake_hands"]

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
#: Error codes that only servers of a stateless revision use.
STATELESS_ERRORS = frozenset((HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION))


COMPLETING = ServerCapabilities(completions={})


class ServerFacts(msgspec.Struct, frozen=True):
    """Negotiated revision and the server's info, capabilities and instructions. ``info`` is None if not given."""

    revision: Revision
    info: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | None

    @property
    def missing(self) -> frozenset[RequestType]:
        """The requests whose capability the server has not declared."""
        return frozenset(row for row in REQUESTS.values() if not self.offers(row))

    def offers(self, request: RequestType) -> bool:
        """Return whether the server has declared the capability that a request requires."""
        capability = request.capability
        if capability is None or getattr(self.capabilities, capability) is not None:
            return True
        # The oldest revision had completion without a capability for it.
        return capability == "completions" and self.revision.project(COMPLETING).completions is None

    def reports_changes(self, kind: str) -> bool:
        """Return whether the server declares ``listChanged`` for a list: "resources", "tools" or "prompts"."""
        offered = getattr(self.capabilities, kind)
        return offered is not None and offered.list_changed is True


async def negotiate(link: ClientConnection, wanted: Revision | None, *, timeout: float, patience: float) -> ServerFacts:
    """Negotiate a revision with a server: ``wanted``, or the newest that both sides support.

    ``timeout`` is for each request, ``patience`` for the first one unless a revision is ``wanted``: without a response
    by then, the handshake is tried. Both are in seconds.

    Raises:
        ProtocolError: there is no revision that both sides support.
        PeerError: the server returned an error response.
        TransportError: the connection was lost, or the server does not respond.
    """
    if wanted is not None and not wanted.stateless:
        return await shake_hands(link, wanted, timeout=timeout, insist=True)
    revision = LATEST if wanted is None else wanted
    silent = False
    try:
        return await discover(link, revision, timeout=timeout if wanted is not None else patience)
    except Unspoken as other:
        if other.revision is None or (wanted is not None and other.revision is not wanted):
            raise unspoken(other.offered, wanted) from None
        if other.revision.stateless:
            return await discover(link, other.revision, timeout=timeout)
        return await shake_hands(link, other.revision, timeout=timeout)
    except RequestTimeout:
        silent = True
        if wanted is not None:
            raise
    except (PeerError, ProtocolError, HTTPStatusError) as error:
        if wanted is not None or (isinstance(error, PeerError) and error.code in STATELESS_ERRORS):
            raise
        if not isinstance(error, ProtocolError) and error.status in UNAVAILABLE_STATUSES:
            raise  # the status does not tell which revisions the server supports
    try:
        return await shake_hands(link, LATEST_HANDSHAKE, timeout=timeout)
    except PeerError:
        if not silent:
            raise
        return await discover(link, revision, timeout=timeout)  # the server was only slow


class Unspoken(Exception):
    """Unsupported revision. ``revision`` is the newest revision that both sides support, or None."""

    def __init__(self, offered: list[str]) -> None:
        super().__init__()
        self.offered = offered
        self.revision = best_of(offered)


def best_of(offered: Iterable[str]) -> Revision | None:
    """Return the newest offered revision that this client supports, or None."""
    names = set(offered)
    return next((revision for name, revision in REVISIONS.items() if name in names), None)


def unspoken(offered: Iterable[str], wanted: Revision | None) -> ProtocolError:
    ours = ", ".join(REVISIONS) if wanted is None else wanted.name
    return ProtocolError(f"The server speaks {', '.join(offered) or 'nothing that it names'}; wanted is {ours}"[:500])


async def discover(link: ClientConnection, revision: Revision, *, timeout: float) -> ServerFacts:
    """Send ``server/discover`` and return the server's declaration.

    https://modelcontextprotocol.io/specification/2026-07-28/server/discover

    Raises:
        Unspoken: the server does not support this revision.
    """
    link.connection.speak(revision)
    try:
        result: DiscoverResult = await link.call(DISCOVER, Params(), timeout=timeout)
    except PeerError as error:
        if error.code == UNSUPPORTED_VERSION and isinstance(error.data, dict):
            offered = error.data.get("supported")
            raise Unspoken([str(name) for name in offered] if isinstance(offered, list) else []) from None
        raise
    if revision.name not in result.supported_versions:
        raise Unspoken(result.supported_versions)
    return ServerFacts(
        revision,
        _identity(result.meta or {}),
        result.capabilities,
        result.instructions,
    )


def _identity(meta: dict[str, Any]) -> Implementation | None:
    try:
        return msgspec.convert(meta.get(SERVER_INFO), prepared(Implementation))
    except msgspec.ValidationError:
        return None


async def shake_hands(
    link: ClientConnection, revision: Revision, *, timeout: float, insist: bool = False
) -> ServerFacts:
    """Perform the ``initialize`` handshake in ``revision`` or, unless ``insist``, the one the server counter-offers.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation

    Raises:
        ProtocolError: the server chose an unsupported revision, or another one than ``insist`` allows.
        PeerError: the server returned an error response.
    """
    connection = link.connection
    result: InitializeResult = await link.initialize(revision, timeout)
    agreed = REVISIONS.get(result.protocol_version)
    if agreed is None or agreed.stateless or (insist and agreed is not revision):
        raise unspoken([result.protocol_version[:100]], revision if insist else None)
    connection.speak(agreed)
    link.notify(INITIALIZED)
    link.transport.settle(agreed)
    return ServerFacts(agreed, result.server_info, result.capabilities, result.instructions)
