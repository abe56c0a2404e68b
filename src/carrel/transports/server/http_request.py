"""HTTP request reading: headers, Accept, body limits, and rejections before the message is parsed.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#sending-messages
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Generator, Iterable, Sequence
from types import coroutine
from typing import Any

import msgspec

from carrel.limits import Budget, Limits, Quota
from carrel.protocol.observer import RejectedRequest
from carrel.protocol.principal import AuthenticatedCaller
from carrel.transports.server.direct import take_body
from carrel.transports.server.http_response import Receive, Send

__all__ = [
    *(
        "Bodies",
        "HTTPExchange",
        "Headers",
        "Rejection",
        "accepts",
        "is_json",
        "read_headers",
        "rejected_request",
        "session_quota_exceeded",
    ),
]

#: The headers of a request, by lower-case name.
Headers = dict[bytes, bytes]

#: Matches the parameter q=0, by which a media range is not accepted.
_NO_WEIGHT = re.compile(rb"q=0(\.0*)?").fullmatch

JSON = b"application/json"
EVENTS = b"text/event-stream"
#: Headers that must not be repeated: a proxy and a server could each use another one of them.
SINGLE = frozenset((b"authorization", b"content-type", b"host", b"last-event-id", b"origin"))


class HTTPExchange(msgspec.Struct):
    """An HTTP request, and how to respond to it. ``path`` is relative to where the transport is mounted."""

    scope: dict[str, Any]
    receive: Receive
    send: Send
    path: str
    headers: Headers = {}
    extra: list[tuple[bytes, bytes]] = []
    """Headers to add to the response."""
    caller: AuthenticatedCaller | None = None
    """Authenticated caller; None if the request needs no authorization."""


class Rejection(Exception):
    """HTTP error response to a request that is rejected before its message is parsed."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = list(headers)


def rejected_request(exchange: HTTPExchange, rejection: Rejection) -> RejectedRequest:
    """Return a rejected request for observers."""
    scope, caller = exchange.scope, exchange.caller
    peer = scope.get("client")
    return RejectedRequest(
        status=rejection.status,
        message=str(rejection),
        method=scope["method"],
        path=exchange.path,
        address=peer[0] if peer else "",
        principal=None if caller is None else caller.principal,
    )


def session_quota_exceeded(sessions: Quota, client: str) -> Rejection:
    """Return the rejection of a new session: 429 if its client has too many, 503 if all clients together have."""
    retry = [(b"retry-after", b"10")]
    if sessions.used_by(client) >= sessions.share:
        return Rejection(429, f"There are too many sessions of this client: at most {sessions.share}", retry)
    return Rejection(503, f"There are too many sessions: at most {sessions.total}", retry)


def read_headers(pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return headers as a dict by name.

    Raises:
        Rejection: a header is repeated that must not be.
    """
    headers: Headers = dict(pairs)
    if len(headers) == len(pairs):
        return headers
    headers = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif name == b"accept":
            headers[name] += b", " + value
        elif name in SINGLE or name.startswith(b"mcp-"):
            raise Rejection(400, f"The {name.decode('latin-1')} header is repeated")
    return headers


class Bodies:
    """Body reader with a budget for incomplete bodies.

    A client may use a quarter of ``max_unfinished_body_bytes``, but always one body of ``max_message_bytes``.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._budget = Budget(limits.max_unfinished_body_bytes, limits.max_message_bytes)

    async def read(self, headers: Headers, receive: Receive, client: str, most: int | None = None) -> bytes:
        """Read the body of a request: at most ``most`` or ``max_message_bytes``, within ``body_timeout`` seconds.

        Raises:
            Rejection: it is too long, too late or incomplete; or there are too many incomplete bodies.
        """
        limit = most or self._limits.max_message_bytes
        length = headers.get(b"content-length")
        if length is not None and length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise too_long(limit, most)
        body = take_body(receive)
        if body is None:
            body = await self._receive(receive, client, most)
        if len(body) > limit:
            raise too_long(limit, most)
        return body

    async def _receive(self, receive: Receive, client: str, most: int | None) -> bytes:
        timeout = self._limits.body_timeout
        steps, arrived, message = take_step(receive())
        if not arrived or message.get("more_body", False):
            try:
                async with asyncio.timeout(timeout):  # only now: a timer that is cancelled stays in the event loop
                    if not arrived:
                        message = await go_on(steps, message)
                    if message.get("more_body", False):
                        return await self._read_more(message.get("body", b""), receive, client, most)
            except TimeoutError:
                problem = f"The body was not received within {timeout:g} seconds (body_timeout)"
                raise Rejection(408, problem, [(b"connection", b"close")]) from None
        if message["type"] == "http.disconnect":
            raise Rejection(400, "The client has disconnected")
        body: bytes = message.get("body", b"")
        return body

    async def _read_more(self, first: bytes, receive: Receive, client: str, most: int | None) -> bytes:
        limits, budget = self._limits, self._budget
        limit = most or limits.max_message_bytes
        share = max(limits.max_unfinished_body_bytes // 4, limits.max_message_bytes)
        budget.limit(max(limits.max_unfinished_body_bytes, share), share)
        body = bytearray()
        taken, piece, more = 0, first, True
        try:
            while True:
                if len(body) + len(piece) > limit:
                    raise too_long(limit, most)
                if not budget.take(client, len(piece)):
                    problem = "There are too many bodies that are not complete (max_unfinished_body_bytes)"
                    raise Rejection(503, problem, [(b"retry-after", b"10"), (b"connection", b"close")])
                taken += len(piece)
                body += piece
                if not more:
                    return bytes(body)
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Rejection(400, "The client has disconnected")
                piece, more = message.get("body", b""), message.get("more_body", False)
        finally:
            budget.give(client, taken)


def take_step(pending: Awaitable[Any]) -> tuple[Generator[Any, Any, Any], bool, Any]:
    """Run an awaitable until it waits. Return the generator, whether it is done, and the result or awaited future."""
    steps = pending.__await__()
    try:
        return steps, False, steps.send(None)
    except StopIteration as end:
        return steps, True, end.value


@coroutine
def go_on(steps: Generator[Any, Any, Any], waiting: Any) -> Generator[Any, Any, Any]:
    """Await the rest of an awaitable, which ``take_step`` has begun; return its result."""
    while True:
        step, argument = steps.send, None
        try:
            argument = yield waiting
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            step, argument = steps.throw, error
        try:
            waiting = step(argument)
        except StopIteration as end:
            return end.value


def too_long(limit: int, most: int | None) -> Rejection:
    setting = "max_message_bytes" if most is None else "max_body"
    return Rejection(413, f"The body is too long: at most {limit} bytes ({setting})")


def is_json(headers: Headers) -> bool:
    """Return whether the Content-Type is application/json."""
    kind = headers.get(b"content-type", b"")
    return kind == JSON or kind.partition(b";")[0].strip().lower() == JSON


def accepts(accept: bytes) -> tuple[bool, bool]:
    """Return whether an Accept header allows JSON, and whether it allows SSE streams.

    Of the media ranges that match, the most specific one decides; with a weight of 0 it forbids.
    https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1
    """
    if accept == b"application/json, text/event-stream":
        return True, True
    ranges: dict[bytes, bool] = {}
    for part in accept.lower().split(b","):
        kind, *parameters = (piece.strip() for piece in part.split(b";"))
        ranges[kind] = ranges.get(kind, False) or not any(map(_NO_WEIGHT, parameters))
    anything = ranges.get(b"*/*", False)
    return (
        ranges.get(JSON, ranges.get(b"application/*", anything)),
        ranges.get(EVENTS, ranges.get(b"text/*", anything)),
    )
