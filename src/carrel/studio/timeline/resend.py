"""Sends a request of the timeline again, as the same client, and compares its answer with the first one."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.host.host import Host
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revisions import REVISIONS
from carrel.studio.problems import Refused
from carrel.studio.timeline.api import ResendRequest, ResendResult
from carrel.studio.timeline.log import WireRecorder
from carrel.studio.timeline.reader import target_of
from carrel.studio.timeline.timeline import Timeline, answer_in, difference, row_of, text_of

__all__ = ["resend"]

#: Seconds that a server gets to answer.
PATIENCE = 60.0


async def resend(host: Host, timeline: Timeline, request: ResendRequest) -> ResendResult:
    """Send a request to a server over the connection of the host, and return both messages and the difference.

    Raises:
        Refused: the text is no request, or its id belongs to a request that waits for its response.
        MCPError: the server is not available.
    """
    message = read_request(request.text)
    server = await host.connect(request.server)
    connection = await server.client.session.connect()
    recorder = connection.transport
    if not isinstance(recorder, WireRecorder):
        raise Refused(409, "The messages of this server are not recorded")
    id = message["id"]
    if id in connection.connection.waiting:
        raise Refused(409, f"The id {id!r} belongs to a request that waits for its response: use another one")
    before = None if request.number is None else timeline.log.find(request.number)
    name = target_of(message.get("params"))
    revision = None if recorder.connection.revision is None else REVISIONS[recorder.connection.revision]
    number = timeline.log.last + 1
    outgoing = OutgoingMessage(request.text.encode(), message["method"], id, name, revision)
    answer = await recorder.ask(one_line(outgoing), id, PATIENCE)
    await timeline.read()
    sent = timeline.log.find(number)
    received = timeline.counterpart(sent)
    first = timeline.counterpart(before)
    failure = answer.failure
    if received is None and failure is None and answer.error is not None:
        failure = str(answer.error.get("message"))
    return ResendResult(
        sent=None if sent is None else row_of(sent),
        received=None if received is None else row_of(received),
        text=None if received is None else text_of(received),
        failure=failure,
        hunks=None if received is None or first is None else difference(answer_in(first), answer_in(received)),
    )


def read_request(text: str) -> dict[str, Any]:
    """Return a request from its text.

    Raises:
        Refused: the text is not a JSON-RPC request.
    """
    try:
        message = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(400, f"The text is not JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise Refused(400, "The text is not a request: it needs a method")
    if not isinstance(message.get("id"), str | int) or isinstance(message["id"], bool):
        raise Refused(400, "The text is not a request: it needs an id, which is a text or a number")
    return message


def one_line(message: OutgoingMessage) -> OutgoingMessage:
    """Replace the line breaks between values of a message: on stdio, they separate messages."""
    message.data = message.data.replace(b"\r", b" ").replace(b"\n", b" ")
    return message
