"""How the tests of the client's protocol speak: connections that are ready, what they write, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from carrel.protocol.client import (
    ClientProtocol,
    Event,
    FailedRequest,
    Ignored,
    IncomingRequest,
    OutgoingMessage,
    Response,
    ServerNotification,
)
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import NotificationType, RequestType
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation, Params, Result
from support.server_connection import pack

ROWS: Mapping[str, Any] = {
    row.operation: row
    for row in (
        *(row for revision in reversed(REVISIONS.values()) for row in revision.requests.values()),
        *(row for extension in (SKILLS, TASKS) for row in extension.requests.values()),
    )
}

__all__ = [
    "answer",
    "failed",
    "heard",
    "notice_of",
    "notify",
    "question",
    "replied",
    "row_of",
    "sent",
    "speaking",
    "strayed",
]


def speaking(revision: str | None, capabilities: ClientCapabilities | None = None) -> ClientProtocol:
    """Return a connection that speaks a revision; None: nothing is agreed on yet."""
    connection = ClientProtocol(Implementation("client", "1.0"), capabilities or ClientCapabilities())
    if revision is not None:
        connection.speak(REVISIONS[revision])
    return connection


def sent(outgoing: OutgoingMessage | None) -> dict[str, Any]:
    """Return a message as it stands on the wire."""
    assert outgoing is not None
    assert b"\n" not in outgoing.data
    message: dict[str, Any] = json.loads(outgoing.data)
    return message


def row_of(operation: str) -> RequestType:
    """Return the row of a request; one of a method that does not exist, if there is no such operation."""
    return ROWS.get(operation) or RequestType(operation, operation, Params, Result)


def notice_of(operation: str) -> NotificationType:
    """Return the row of a notification; one of a method that does not exist, if there is no such notification."""
    rows = [
        row
        for revision in REVISIONS.values()
        for row in (*revision.client_notifications.values(), *revision.events.values())
    ]
    return next((row for row in rows if row.operation == operation), NotificationType(operation, operation))


def answer(connection: ClientProtocol, id: Any, result: Any) -> Event:
    """Answer a request with a result."""
    return connection.receive(pack({"jsonrpc": "2.0", "id": id, "result": result}))


def replied(connection: ClientProtocol, operation: str, params: Params, result: Any, owner: Any = None) -> Any:
    """Ask, answer, and return the result as it was read."""
    event = answer(connection, connection.request(row_of(operation), params, owner).id, result)
    assert isinstance(event, Response), event
    return event.result


def failed(connection: ClientProtocol, operation: str, params: Params, **members: Any) -> Exception:
    """Ask, answer with these members, and return the error that comes of it."""
    outgoing = connection.request(row_of(operation), params)
    event = connection.receive(pack({"jsonrpc": "2.0", "id": outgoing.id, **members}))
    assert isinstance(event, FailedRequest), event
    return event.error


def heard(connection: ClientProtocol, message: Any) -> ServerNotification:
    """Receive what must be a notification that is known."""
    event = connection.receive(pack(message))
    assert isinstance(event, ServerNotification), event
    return event


def question(connection: ClientProtocol, message: Any) -> IncomingRequest:
    """Receive what must be a request that is known."""
    event = connection.receive(pack(message))
    assert isinstance(event, IncomingRequest), event
    return event


def strayed(connection: ClientProtocol, message: Any) -> Ignored:
    """Receive what must mean nothing."""
    event = connection.receive(pack(message))
    assert isinstance(event, Ignored), event
    return event


def notify(method: str, params: Any = None) -> dict[str, Any]:
    """Make a notification."""
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}
