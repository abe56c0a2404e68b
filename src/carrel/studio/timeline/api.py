"""Data of the API for authors of servers: the timeline of messages."""

from __future__ import annotations

from typing import Literal

from carrel.studio.api import Hunk, Payload
from carrel.studio.bodies import Body
from carrel.studio.timeline.facts import Kind

__all__ = [
    "ComparableRequest",
    "CompareRequest",
    "ComparedMessage",
    "ComparedPair",
    "Comparison",
    "HTTPView",
    "ResendRequest",
    "ResendResult",
    "WireDetail",
    "WireRow",
    "WireWindow",
]


class WireRow(Payload, frozen=True, kw_only=True):
    """Message of the timeline. ``time`` is in seconds since 1970, ``duration`` in milliseconds.

    ``connection`` is the number of the connection, ``status`` the HTTP status of the response to the request that
    carried the message.
    """

    number: int
    time: float
    server: str
    connection: int
    direction: Literal["sent", "received"]
    kind: Kind
    method: str | None
    id: str | int | None
    target: str | None
    revision: str | None
    counterpart: int | None
    duration: float | None
    bytes: int
    error: str | None
    invalid: tuple[str, ...]
    status: int | None


class WireWindow(Payload, frozen=True, kw_only=True):
    """Window of the timeline. ``last`` is the number of the newest message, ``dropped`` counts dropped messages.

    ``servers`` and ``methods`` are the values to filter by. ``recording`` is the name of the session file that is
    shown, None for the messages of this studio; times of a recording are seconds since its start.
    """

    total: int
    offset: int
    rows: tuple[WireRow, ...]
    last: int
    all: int
    dropped: int
    servers: tuple[str, ...]
    methods: tuple[str, ...]
    recording: str | None


class HTTPView(Payload, frozen=True, kw_only=True):
    """HTTP request that carried a message, and its response. Values of headers that may be secrets are hidden."""

    method: str
    status: int
    sent: dict[str, str]
    received: dict[str, str]


class WireDetail(Payload, frozen=True, kw_only=True):
    """Message with its text, and the request or response that belongs to it.

    ``draft`` is the text of the request with a new id, None if the message is no request that can be sent again.
    ``before`` is the number of the response to the request before with the same method and target, and ``changes`` is
    the difference between both responses.
    """

    row: WireRow
    text: str
    http: HTTPView | None
    counterpart: WireRow | None
    counterpart_text: str | None
    draft: str | None
    before: int | None
    changes: tuple[Hunk, ...] | None


class ResendRequest(Body, frozen=True, kw_only=True):
    """Request to send: JSON text, and the number of the message that it was made from."""

    server: str
    text: str
    number: int | None = None


class ResendResult(Payload, frozen=True, kw_only=True):
    """Sent request: the numbers of both messages, and the difference between the first answer and this one.

    ``failure`` says why there is no response.
    """

    sent: WireRow | None
    received: WireRow | None
    text: str | None
    failure: str | None
    hunks: tuple[Hunk, ...] | None


class ComparableRequest(Payload, frozen=True, kw_only=True):
    """Request that clients of two revisions can send, and the revisions: all of them, and the two to begin with.

    ``fixed`` is the only revision for this server by its configuration.
    """

    number: int
    server: str
    method: str
    target: str | None
    revisions: tuple[str, ...]
    old: str
    new: str
    fixed: str | None


class CompareRequest(Body, frozen=True, kw_only=True):
    """Number of the request to compare, and the revisions of both clients."""

    number: int
    old: str
    new: str


class ComparedMessage(Payload, frozen=True, kw_only=True):
    """Message of one of the clients."""

    row: WireRow
    text: str


class ComparedPair(Payload, frozen=True, kw_only=True):
    """Messages of both clients in the same role, with their difference; one of them may be None."""

    old: ComparedMessage | None
    new: ComparedMessage | None
    hunks: tuple[Hunk, ...] | None


class Comparison(Payload, frozen=True, kw_only=True):
    """Messages of the clients of two revisions, in their order. ``failures`` say why a client has no response."""

    revisions: tuple[str, str]
    failures: tuple[str | None, str | None]
    pairs: tuple[ComparedPair, ...]
