"""A request over HTTP up to the message in it: its headers, its body, and why it is refused before anybody reads that.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#sending-messages
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from carrel.transports.exchange import Receive

__all__ = ["Headers", "Rejection", "accepts", "is_json", "read_body", "read_headers"]

#: The headers of a request, by lower-case name.
Headers = dict[bytes, bytes]

JSON = b"application/json"
EVENTS = b"text/event-stream"
#: Headers that may be there once only: two parties that read different ones would see different requests.
SINGLE = frozenset((b"authorization", b"content-type", b"host", b"last-event-id", b"origin"))


class Rejection(Exception):
    """A request that is refused before anybody reads its message."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = list(headers)


def read_headers(pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return headers by name.

    Raises:
        Rejection: one is there more than once that must not be.
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
            raise Rejection(400, f"The {name.decode('latin-1')} header is there more than once")
    return headers


async def read_body(headers: Headers, receive: Receive, limit: int, timeout: float) -> bytes:
    """Return the body: at most ``limit`` bytes, within ``timeout`` seconds.

    Raises:
        Rejection: it is longer, takes longer, or never comes.
    """
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise Rejection(413, f"The body is too long: at most {limit} bytes")
    try:
        async with asyncio.timeout(timeout):
            body = await _receive_all(receive, limit)
            return body if type(body) is bytes else bytes(body)
    except TimeoutError:
        raise Rejection(408, f"The body did not come within {timeout} seconds", [(b"connection", b"close")]) from None


async def _receive_all(receive: Receive, limit: int) -> bytes | bytearray:
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    while message.get("more_body", False) and len(body) <= limit:
        message = await receive()
        body = bytearray(body) if type(body) is bytes else body
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise Rejection(400, "The client went away")
    if len(body) > limit:
        raise Rejection(413, f"The body is too long: at most {limit} bytes")
    return body


def is_json(headers: Headers) -> bool:
    """Say whether the body is JSON by its content type."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == JSON


def accepts(accept: bytes) -> tuple[bool, bool]:
    """Say whether an Accept header allows JSON, and whether it allows event streams."""
    if accept == b"application/json, text/event-stream":
        return True, True
    kinds = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    everything = b"*/*" in kinds
    return (
        everything or JSON in kinds or b"application/*" in kinds,
        everything or EVENTS in kinds or b"text/*" in kinds,
    )
