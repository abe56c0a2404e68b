"""HTTP/1.1 protocol of ``run("http")``: uvicorn's httptools protocol with limits on sizes, counts and times.

The parser (llhttp) is strict about syntax. ``http_head`` rejects heads that it accepts but RFC 9112 forbids. A rejected
request is answered with an error that names the limit, and its connection is closed; pipelined requests before it are
still answered.

https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httptools
from msgspec import UNSET

from carrel.errors import INVALID_REQUEST
from carrel.protocol.encoding import encode_error
from carrel.transports.server.authorizer import address_group
from carrel.transports.server.client_certificates import CLIENT_CERTIFICATE, principal_of
from carrel.transports.server.connections import Connections, Member
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http_flow import Flow, Pipeline, unacknowledged
from carrel.transports.server.http_head import RequestRejected, check_head, check_unfinished_head
from carrel.transports.server.uvicorn_internals import HIGH_WATER_LIMIT, HttpToolsProtocol

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal

__all__ = ["LimitedProtocol"]

# States of the receiver
IDLE = 0
HEAD = 1
BODY = 2
DISCARD = 3

#: Seconds in which the first request of a connection may arrive, although the server is shutting down.
FIRST_REQUEST = 1.0

#: Lingering close: seconds that a client gets to read the last response. Bytes that it sends meanwhile are discarded.
LINGER = 5.0
#: Bytes that are discarded of a rejected request. A client that sends more may lose the response.
MAX_DISCARDED = 64 * 1024 * 1024

#: Maximum number of pipelined requests.
MAX_PIPELINED = 16

#: Bytes of framing that a byte of a chunked body may cost, besides ``max_header_bytes``: chunks may be small.
MAX_FRAMING = 8

_NO_ROOM = "There are too many connections: try again later"


def response(status: int, message: str, *headers: bytes) -> bytes:
    """Encode a complete error response with ``Connection: close``."""
    body = encode_error(UNSET, INVALID_REQUEST, message)
    lines = (
        b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode()),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        *headers,
        b"connection: close",
        b"\r\n",
    )
    return b"\r\n".join(lines) + body


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 server connection with limits and timeouts, on uvicorn's ``HttpToolsProtocol``.

    Args:
        table: the table of all connections of the server.
        proxies: trusted reverse proxies, whose headers name the client.
        options: options of ``HttpToolsProtocol``.
    """

    # An instance dictionary holds the attributes of uvicorn's class, and would take a kilobyte more for these too.
    __slots__ = (
        *(
            "_body_bytes",
            "_deadline",
            "_discarded",
            "_ending",
            "_framing_bytes",
            "_head_bytes",
            "_held",
            "_limits",
            "_proxied",
        ),
        *("_principal", "_proxies", "_error_response", "_running", "_sent_at", "_state", "_table", "_unsent", "group"),
        "handshake",
    )

    def __init__(self, table: Connections, proxies: TrustedProxies, **options: Any) -> None:
        super().__init__(**options)
        self.pipeline = Pipeline()  # type: ignore[assignment]
        self._table = table
        self._limits = table.limits
        self._proxies = proxies
        self._proxied = False
        self._principal: Principal | None = None
        """Principal of the client's certificate."""
        self.group = ""
        self.handshake: Member | None = None
        """The TLS handshake in the table of connections, until it is complete."""
        self._state = IDLE
        self._deadline = math.inf
        self._head_bytes = 0
        self._body_bytes = 0
        self._framing_bytes = 0
        self._discarded = 0
        self._unsent = 0
        self._sent_at = 0.0
        self._held = False
        self._ending = False
        self._error_response: bytes | None = None
        self._running: Any = None
        """The request that is answered while later ones wait in the pipeline; None while it is ``cycle``."""

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.handshake is not None:
            self._table.remove(self.handshake)
            self.handshake = None
            certificate = transport.get_extra_info("peercert")
            if certificate:
                self._principal = principal_of(certificate)
        self.flow = Flow(transport)  # type: ignore[assignment]
        address = self.client[0] if self.client else ""
        self._proxied = address in self._proxies
        self.group = "" if self._proxied else address_group(address)
        if not self._table.admit(self, shared=self._proxied):
            self._state = DISCARD
            transport.write(response(503, _NO_ROOM, b"retry-after: 10"))
            transport.close()
            return
        self._sent_at = self.loop.time()
        self._deadline = self._sent_at + self._limits.idle_timeout
        if self._table.ending:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        self.pipeline.clear()
        if self._running is not None:  # uvicorn notifies only the newest request, and the others would keep writing
            self._running.disconnected = True
            self._running.message_event.set()
            self._running = None
        super().connection_lost(exc)

    def drop(self) -> None:
        """Abort the connection."""
        self.transport.abort()

    def shutdown(self) -> None:
        """Close gracefully: at once if idle, otherwise after the response in progress or the first request."""
        self._ending = True
        opened = self._deadline - self._limits.idle_timeout if self._state == IDLE else self.loop.time()
        left = opened + FIRST_REQUEST - self.loop.time()
        if self.cycle is None and self._state != DISCARD and left > 0:
            self.loop.call_later(left, super().shutdown)
        else:
            super().shutdown()

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def check(self, now: float) -> None:
        """Enforce the timeouts for headers, idle connections and unread output."""
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            unsent += unacknowledged(self.transport)
        if not unsent or unsent < self._unsent:
            self._sent_at = now
        elif now - self._sent_at > self._limits.write_timeout:
            self._reset()
        self._unsent = unsent
        if now < self._deadline or self.transport.is_closing():
            return
        if self._state == HEAD:
            limit = self._limits.header_timeout
            self._reject(408, f"The headers were not received within {limit:g} seconds (header_timeout)")
        elif self._state == DISCARD:
            self.transport.abort()
        else:
            self.transport.close()

    def _reset(self) -> None:
        """Abort the connection with a TCP reset, so that the kernel discards unsent data."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # Receiving

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == IDLE:
            if data[0] in b"\r\n" and not data.strip(b"\r\n"):
                return  # empty lines before a request are ignored
            self._state = HEAD
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                self._table.busy(self)
                self._deadline = self.loop.time() + self._limits.header_timeout
            self._head_bytes = len(data)
        elif state == HEAD:
            self._head_bytes += len(data)
        elif state == DISCARD:
            self._discard(len(data))
            return
        else:
            self._framing_bytes += len(data)
        try:
            self.parser.feed_data(data)
            if self._state == HEAD:
                check_unfinished_head(self._limits, self.url or b"", self.headers or (), self._head_bytes)
            elif self._state == BODY:
                self._check_unfinished_body(counted=state == BODY)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            rejected = error.__context__
            if isinstance(rejected, RequestRejected):
                self._reject(rejected.status, str(rejected))
            else:
                self._reject(400, f"This is not a valid HTTP/1.1 request: {error}")
        except RequestRejected as rejected:
            self._reject(rejected.status, str(rejected))

    def _discard(self, size: int) -> None:
        """Count discarded bytes. Beyond the limit, stop reading, and abort the connection if the response is sent."""
        self._discarded += size
        if self._discarded <= MAX_DISCARDED:
            return
        if self._error_response is None:
            self.transport.abort()
        else:
            self.flow.pause_reading()

    def _check_unfinished_body(self, *, counted: bool) -> None:
        """Limit the framing of an unfinished body, and disable keep-alive for a response before its end.

        ``counted``: all received bytes belong to the body.
        """
        if not counted:
            self._framing_bytes = self._body_bytes
        limit = self._limits.max_header_bytes
        if self._framing_bytes - self._body_bytes > limit + MAX_FRAMING * self._body_bytes:
            raise RequestRejected(
                431, f"Chunk extensions and trailers are too large: at most {limit} bytes (max_header_bytes)"
            )
        cycle = self.cycle
        if not self._held and not cycle.response_started:
            self._held = cycle.keep_alive
            cycle.keep_alive = False
            cycle.transport = Lingering(self)  # type: ignore[assignment]

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._state = HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise RequestRejected(
                503, f"There are too many requests on one connection at a time: at most {MAX_PIPELINED}"
            )
        check_head(self._limits, self.parser, self.url, self.headers, self._head_bytes)
        if self._proxied:
            assert self.client is not None
            self.scope["client"] = (self._proxies.client(self.client[0], self.headers), 0)
        if self._principal is not None:
            self.scope[CLIENT_CERTIFICATE] = self._principal  # type: ignore[literal-required]
        self._state = BODY
        self._deadline = math.inf
        self._body_bytes = self._framing_bytes = 0
        self._held = False
        before = self.cycle
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False
        if self.pipeline and self._running is None:
            self._running = before
        self.headers = []  # collects trailers, which must not be taken for headers

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # see _ignore_upgrade
        self._state = IDLE
        self._head_bytes = 0
        cycle = self.cycle
        if cycle.response_complete:
            return
        if self._held and not cycle.response_started and not self._ending:
            cycle.keep_alive = True
        cycle.more_body = False
        cycle.message_event.set()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Ignore an Upgrade request, as a server may, and continue with HTTP/1.1.

        The parser does not parse the body of such a request. A second parser does, given the request's framing headers.
        """
        parser = httptools.HttpRequestParser(Resumed(self))
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser = parser
        headers = self.scope["headers"]
        framing = [(name, value) for name, value in headers if name in (b"content-length", b"transfer-encoding")]
        head = b"".join(b"%b: %b\r\n" % pair for pair in framing)
        parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % head)
        if rest:
            self.data_received(rest)
        elif self._state == BODY:
            self._check_unfinished_body(counted=False)

    # Responses

    def on_response_complete(self) -> None:
        if self.pipeline:
            following = self.pipeline[-1][0]
            self._running = None if following is self.cycle else following
            super().on_response_complete()
            return
        self._running = None
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._error_response is not None:
            self.transport.write(self._error_response)
            self._error_response = None
            self.linger()
        elif self._state == HEAD:
            self._deadline = self.loop.time() + self._limits.header_timeout
        elif self._state == IDLE:
            self._deadline = self.loop.time() + self._limits.keep_alive_timeout
            self._table.idle(self)

    def _reject(self, status: int, message: str) -> None:
        """Send an error response after all pending responses, and close the connection."""
        unfinished = self._state == BODY
        self._state = DISCARD
        answer = response(status, message)
        cycle = self.cycle
        if unfinished and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline:
                self.pipeline.popleft()  # the newest
            elif cycle.response_started:
                self.transport.close()
                return
            else:
                self.transport.write(answer)
                self.linger()
                return
            self._error_response = answer
        elif self._busy:
            self._error_response = answer
        else:
            self.transport.write(answer)
            self.linger()

    def linger(self) -> None:
        """Lingering close: wait for the client to read the response, which it may lose if it is still sending."""
        self._state = DISCARD
        self._deadline = self.loop.time() + LINGER
        self._table.idle(self)
        self.flow.resume_reading()
        if self._ending or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self.transport.write_eof()


class Lingering:
    """Transport wrapper with a lingering close, for a response that may end before the body of its request."""

    __slots__ = ("_protocol", "is_closing", "write")

    def __init__(self, protocol: LimitedProtocol) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing

    def close(self) -> None:
        """Close, lingering if the request is not complete."""
        if self._protocol.cycle.more_body and not self._protocol.transport.is_closing():
            self._protocol.linger()
        else:
            self._protocol.transport.close()


class Resumed:
    """Parser callbacks for the body of a request whose headers were parsed by another parser."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        self._protocol = protocol
        self._begun = False
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete

    def on_message_begin(self) -> None:
        if self._begun:
            self._protocol.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._begun:
            self._protocol.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._begun:
            self._protocol.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._begun:
            self._protocol.on_headers_complete()
        self._begun = True
