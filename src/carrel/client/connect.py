"""Connection setup: transport fallback (Streamable HTTP, HTTP+SSE) and version negotiation, remembered per server.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#http-sse-transport-2024-11-05
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from carrel.client.connection import ClientConnection, Owner, Waiter
from carrel.client.endpoints import ServerEndpoint
from carrel.client.negotiation import STATELESS_ERRORS, Found, negotiate, shake_hands
from carrel.errors import HTTPStatusError, MCPError, PeerError, RequestTimeout, TransportError
from carrel.protocol.client import Connection
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.transports.client.transport import Transport

__all__ = ["open_link"]

Era: TypeAlias = Literal["stateless", "handshake", "older transport"]

#: Era by server name, remembered for the life of this process; the oldest entries are evicted first.
ERAS: dict[str, Era] = {}
MAX_ERAS = 1000
#: HTTP statuses with which a server of HTTP+SSE (2024-11-05) may refuse Streamable HTTP.
NOT_HERE = frozenset((400, 404, 405))
#: How many characters of a silent program's standard error an error message shows.
SHOWN = 2000


async def open_link(
    way: ServerEndpoint,
    new_connection: Callable[[], Connection[Waiter]],
    owner: Owner,
    wanted: Revision | None,
    *,
    timeout: float | None,
    patience: float,
) -> tuple[ClientConnection, Found]:
    """Open a connection and negotiate a revision.

    Raises:
        ConfigError: there is no such program, or a package is not installed.
        TransportError: the server cannot be reached.
        PeerError: the server refuses.
        ProtocolError: there is no revision that both sides support.
        AuthorizationError: the server requires authorization.
    """

    async def attempt(open: Callable[[], Transport], *, greet: bool) -> tuple[ClientConnection, Found]:
        link = ClientConnection(open(), new_connection(), owner)
        limit = 3600.0 if timeout is None else timeout
        try:
            await link.open()
            if greet:
                found = await shake_hands(link, wanted or LATEST_HANDSHAKE, timeout=limit, insist=wanted is not None)
            else:
                found = await negotiate(link, wanted, timeout=limit, patience=min(patience, limit))
            link.connection.settle()
            return link, found
        except RequestTimeout as error:
            await link.close()
            raise silent(way, error, link.transport) from None
        except BaseException:
            await link.close()
            raise

    era = ERAS.get(way.name) if way.remembered and wanted is None else None
    if era is not None and era != "stateless":
        try:
            if era == "older transport" and way.open_older is not None:
                return await attempt(way.open_older, greet=True)
            return await attempt(way.open, greet=True)
        except (PeerError, HTTPStatusError):
            del ERAS[way.name]  # the server has changed
    try:
        link, found = await attempt(way.open, greet=False)
    except (HTTPStatusError, PeerError) as error:
        if way.open_older is None or error.status not in NOT_HERE or (wanted is not None and wanted.stateless):
            raise
        if isinstance(error, PeerError) and error.code in STATELESS_ERRORS:
            raise
        try:
            link, found = await attempt(way.open_older, greet=True)
        except MCPError:
            if isinstance(error, PeerError):
                raise error from None
            raise HTTPStatusError(error.status, f"{error}. Is it the URL of an MCP server?") from None
        remember(way, "older transport")
        return link, found
    except TransportError as error:
        if wanted is not None or not error.delivered or isinstance(error, RequestTimeout):
            raise
        # Some programs exit if the first message is not initialize.
        try:
            link, found = await attempt(way.open, greet=True)
        except MCPError:
            raise error from None
    remember(way, "stateless" if found.revision.stateless else "handshake")
    return link, found


def silent(way: ServerEndpoint, error: RequestTimeout, transport: Transport) -> RequestTimeout:
    """Return a timeout error that names the server, with the end of a program's standard error (perhaps a prompt)."""
    said = str(getattr(transport, "errors", "")).strip()[-SHOWN:]
    return RequestTimeout(
        f"{way.shown[:200]} is silent: {error}. Is it an MCP server?"
        + (f" Its standard error ends with:\n{said}" if said else "")
    )


def remember(way: ServerEndpoint, era: Era) -> None:
    if way.remembered:
        ERAS.pop(way.name, None)
        ERAS[way.name] = era
        if len(ERAS) > MAX_ERAS:
            del ERAS[next(iter(ERAS))]
