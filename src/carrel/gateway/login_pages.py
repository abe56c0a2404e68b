"""LoginPages: pages of logins, which any replica of a gateway serves.

A login stays at the replica where it has begun: its page is passed on to that replica. The ticket or ``state`` in the
URL of a page begins with the slot of the replica.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import msgspec

from carrel.errors import ServerUnavailable
from carrel.security.server.proxy.pages import page
from carrel.state.connections import MailboxConnection, ReplicaLost
from carrel.transports.server.route import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from carrel.server.app import Server
    from carrel.state.replica import Replica

__all__ = ["LoginPages", "failed"]

Handler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]
#: Mark of the replica where a login has begun, before the random part of a ticket or ``state``.
MARK = re.compile(r"(\d{1,9})-")
#: Maximum number of pages that this replica gets from others at the same time: their URLs need no token.
MAX_ASKED = 100


class PageReply(msgspec.Struct):
    """Response with a page."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class LoginPages:
    """Pages of logins on the server of a gateway."""

    def __init__(self) -> None:
        self._app: Server | None = None
        self._handlers: dict[str, Handler] = {}
        self._asked = 0

    @property
    def _replica(self) -> Replica | None:
        """The gateway among its replicas; None if it has none."""
        replica = None if self._app is None else self._app.endpoint.replica
        return replica if replica is not None and replica.shared else None

    def add(
        self,
        app: Server,
        path: str,
        handler: Handler,
        login_of: Callable[[HTTPRequest], str],
        *,
        methods: Iterable[str] = ("GET",),
        max_body: int = 4096,
    ) -> None:
        """Add a page to the gateway's server. ``login_of`` returns the ticket or ``state`` of a request."""
        self._app = app
        self._handlers[path] = handler

        async def serve(request: HTTPRequest) -> HTTPResponse:
            replica, mark = self._replica, MARK.match(login_of(request))
            if replica is None or mark is None or int(mark[1]) == replica.state.slot:
                return await handler(request)
            if self._asked >= MAX_ASKED:
                return failed(503, "Too many pages are being opened. Try again in a moment.")
            self._asked += 1
            try:
                return await ask(replica, int(mark[1]), path, request)
            finally:
                self._asked -= 1

        app.route(path, methods=methods, max_body=max_body)(serve)

    def mark(self) -> str:
        """Return the beginning of the ticket or ``state`` of a login that begins here, and let other replicas pass its
        pages on.
        """
        replica = self._replica
        if replica is None:
            return ""
        for path, handler in self._handlers.items():
            replica.connections.serve(f"page {path}", partial(reply, handler))
        return f"{replica.state.slot}-"


async def ask(replica: Replica, slot: int, path: str, request: HTTPRequest) -> HTTPResponse:
    """Return the response of another replica to a request for a page."""
    try:
        async with replica.connections.open(slot, f"page {path}") as connection:
            connection.send(msgspec.msgpack.encode(msgspec.structs.replace(request, principal=None)))
            answer = msgspec.msgpack.decode(await connection.receive(), type=PageReply)
    except ReplicaLost:
        return failed(
            404, "The server where this login has begun has stopped. Make the request again to get a new link."
        )
    except ServerUnavailable as error:
        return failed(503, str(error))
    return HTTPResponse(answer.status, answer.headers, answer.body)


async def reply(handler: Handler, connection: MailboxConnection) -> None:
    """Send the response to a request that has reached another replica."""
    answer = await handler(msgspec.msgpack.decode(await connection.receive(), type=HTTPRequest))
    headers = answer.headers.items() if hasattr(answer.headers, "items") else answer.headers
    body = answer.body.encode() if isinstance(answer.body, str) else answer.body
    connection.send(msgspec.msgpack.encode(PageReply(answer.status, list(headers), body)))


def failed(status: int, message: str) -> HTTPResponse:
    """Return an error page."""
    return page(status, "Not connected", f"<p>{escape(message)}</p>")
