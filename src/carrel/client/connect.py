"""Connection setup: transport fallback (Streamable HTTP, HTTP+SSE) and version negotiation, remembered per server.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#http-sse-transport-2024-11-05
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from carrel.client.connection import ClientConnection, Owner
from carrel.client.endpoints import ClientEndpoint
from carrel.client.negotiation import STATELESS_ERRORS, ServerFacts, negotiate, shake_hands
from carrel.client.pending_request import Waiter
from carrel.errors import HTTPStatusError, MCPError, PeerError, ProtocolError, RequestTimeout, TransportError
from carrel.protocol.client import ClientProtocol
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.transports.client.transport import STDERR_FOLLOWS, Transport

__all__ = ["ConnectOptions", "KnownEras", "open_connection"]

Era: TypeAlias = Literal["stateless", "handshake", "older transport"]

#: Maximum number of servers whose eras are remembered.
MAX_ERAS = 1000
#: HTTP statuses with which an HTTP+SSE server (2024-11-05) may reject Streamable HTTP.
NOT_HERE = frozenset((400, 404, 405))
#: Maximum number of characters of standard error to include in the error message for a program that sends no message.
SHOWN = 2000


class KnownEras(dict[str, Era]):
    """Eras of servers by name, so that later connections need no fallback. The oldest entries are evicted first."""

    def remember(self, name: str, era: Era) -> None:
        """Remember the era of a server."""
        self.pop(name, None)
        self[name] = era
        if len(self) > MAX_ERAS:
            del self[next(iter(self))]


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the opening of connections; see ``Client``."""

    revision: Revision | None = None
    timeout: float | None = 60.0
    patience: float = 5.0
    eras: KnownEras = KnownEras()
    """Eras of servers; by default, all clients of this process share them."""


async def open_connection(
    endpoint: ClientEndpoint,
    new_connection: Callable[[], ClientProtocol[Waiter]],
    owner: Owner,
    options: ConnectOptions,
) -> tuple[ClientConnection, ServerFacts]:
    """Open a connection and negotiate a revision.

    Raises:
        ConfigError: there is no such program, or a package is not installed.
        TransportError: the server cannot be reached.
        PeerError: the server returned an error response.
        ProtocolError: there is no revision that both sides support.
        AuthorizationError: the server requires authorization.
    """
    wanted = options.revision
    attempt = partial(_attempt, endpoint, new_connection, owner, options)
    eras = options.eras if endpoint.remembered else KnownEras()
    era = eras.get(endpoint.name) if wanted is None else None
    if era is not None and era != "stateless":
        try:
            if era == "older transport" and endpoint.open_older is not None:
                return await attempt(endpoint.open_older, handshake=True)
            return await attempt(endpoint.open, handshake=True)
        except (PeerError, HTTPStatusError):
            eras.pop(endpoint.name, None)  # the server has changed
    try:
        connection, found = await attempt(endpoint.open, handshake=False)
    except (HTTPStatusError, PeerError) as error:
        if endpoint.open_older is None or error.status not in NOT_HERE or (wanted is not None and wanted.stateless):
            raise
        if isinstance(error, PeerError) and error.code in STATELESS_ERRORS:
            raise
        try:
            connection, found = await attempt(endpoint.open_older, handshake=True)
        except MCPError:
            if isinstance(error, PeerError):
                raise error from None
            raise HTTPStatusError(error.status, f"{error}. Is it the URL of an MCP server?") from None
        eras.remember(endpoint.name, "older transport")
        return connection, found
    except TransportError as error:
        if wanted is not None or not error.delivered or isinstance(error, RequestTimeout):
            raise
        # Some programs exit if the first message is not initialize.
        try:
            connection, found = await attempt(endpoint.open, handshake=True)
        except MCPError:
            raise error from None
    eras.remember(endpoint.name, "stateless" if found.revision.stateless else "handshake")
    return connection, found


async def _attempt(
    endpoint: ClientEndpoint,
    new_connection: Callable[[], ClientProtocol[Waiter]],
    owner: Owner,
    options: ConnectOptions,
    open: Callable[[], Transport],
    *,
    handshake: bool,
) -> tuple[ClientConnection, ServerFacts]:
    """Open a connection over one transport; ``handshake``: begin with it, without asking for stateless revisions."""
    wanted = options.revision
    connection = ClientConnection(open(), new_connection(), owner)
    limit = 3600.0 if options.timeout is None else options.timeout
    try:
        await connection.open()
        if handshake:
            found = await shake_hands(connection, wanted or LATEST_HANDSHAKE, timeout=limit, insist=wanted is not None)
        else:
            found = await negotiate(connection, wanted, timeout=limit, patience=min(options.patience, limit))
        connection.connection.settle()
        return connection, found
    except (ProtocolError, TransportError) as error:
        # The message could not be sent, because the connection was lost before: report this earlier error.
        failure = connection.error if isinstance(error, ProtocolError) and connection.error else error
        await connection.close()
        shown = explained(endpoint, failure, connection)
        if shown is error:
            raise
        raise shown from None
    except BaseException:
        await connection.close()
        raise


def explained(endpoint: ClientEndpoint, error: MCPError, connection: ClientConnection) -> MCPError:
    """Return the error of a failed attempt, including output of the program that is not a message, such as a prompt."""
    line = connection.malformed
    if not isinstance(error, RequestTimeout) and (type(error) is not TransportError or line is None):
        return error
    text, follows, errors = str(error).partition(STDERR_FOLLOWS)
    if isinstance(error, RequestTimeout):
        text = f"{endpoint.shown[:200]} {'is silent' if line is None else 'does not speak MCP'}: {text}"
        text += ". Is it an MCP server?" if line is None else ""
        errors = str(getattr(connection.transport, "errors", "")).strip()[-SHOWN:]
        follows = f"{STDERR_FOLLOWS}\n" if errors else ""
    if line is not None:
        text = f'{text.removesuffix(".")}. It sent a line that is no message of MCP: "{line}".'
    return type(error)(f"{text}{follows}{errors}", delivered=error.delivered)
