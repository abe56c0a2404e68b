"""Notifications that programs send on a session of a client."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.client.connection import ClientConnection
from carrel.compat.exchange import notification
from carrel.compat.streams import flush
from carrel.errors import PeerError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.methods import CANCELLED
from carrel.wire.utilities import CancelledParams

__all__ = ["send_notification"]


async def send_notification(
    connection: ClientConnection | None, method: str, params: bytes | None, cancelled: int | None = 0
) -> None:
    """Send a notification with encoded parameters, unless the session is closed.

    A request that it cancels fails with the error code ``cancelled``, as servers do not answer it; with None, its
    caller waits on.
    """
    if connection is None:
        return
    full: Any = connection.transport.send(
        OutgoingMessage(notification(method, params), method, revision=connection.connection.revision)
    )
    if full is not None:
        await full
    await flush(connection.transport)
    if method == CANCELLED.method and params is not None and cancelled is not None:
        id = msgspec.json.decode(params, type=CancelledParams).request_id
        if id is not None:
            connection.transport.abandon(id)
            connection.fail(id, PeerError(cancelled, "Request cancelled"))
