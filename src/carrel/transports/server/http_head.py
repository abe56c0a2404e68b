"""Checks of the head of an HTTP/1.1 request: sizes, the version, the host, and how the body is framed.

https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httptools

    from carrel.limits import Limits

__all__ = ["RequestRejected", "check_head", "check_unfinished_head"]

Headers = Sequence[tuple[bytes, bytes]]


class RequestRejected(Exception):
    """HTTP error for a request that is rejected while it is received."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_unfinished_head(limits: Limits, target: bytes, headers: Headers, received: int) -> None:
    """Check a head of which only ``received`` bytes have come.

    Raises:
        RequestRejected: it is larger than ``limits`` allow.
    """
    if len(target) > limits.max_request_line_bytes:
        raise _long_line(limits)
    if received > limits.max_header_bytes:
        raise _large_head(limits)
    if len(headers) > limits.max_header_count:
        raise _many_headers(limits)


def check_head(
    limits: Limits, parser: httptools.HttpRequestParser, target: bytes, headers: Headers, received: int
) -> None:
    """Check a complete head. ``received`` is the number of bytes since its beginning, which may include a body.

    Raises:
        RequestRejected: it is larger than ``limits`` allow, or RFC 9112 forbids it.
    """
    if len(target) > limits.max_request_line_bytes:
        raise _long_line(limits)
    if len(headers) > limits.max_header_count:
        raise _many_headers(limits)
    if received > limits.max_header_bytes:
        size = len(target) + sum(len(name) + len(value) + 4 for name, value in headers)
        if size > limits.max_header_bytes:
            raise _large_head(limits)
    version = parser.get_http_version()
    coding = host = None
    for name, value in headers:  # a dict of all headers costs three times as much
        if name == b"host":
            host = value
        elif name == b"transfer-encoding":
            coding = value
    if version != "1.1":
        if version != "1.0":
            raise RequestRejected(505, "Only HTTP/1.1 and HTTP/1.0 are supported")
        if coding is not None:
            raise RequestRejected(400, "HTTP/1.0 has no Transfer-Encoding")
    elif host is None:
        raise RequestRejected(400, "The Host header is missing")
    if coding is not None and coding.lower() != b"chunked":
        raise RequestRejected(501, "The only Transfer-Encoding is chunked")
    if target[:1] != b"/":
        _check_target(parser.get_method(), target, host)


def _check_target(method: bytes, target: bytes, host: bytes | None) -> None:
    """Check a request target that is not a path: its host takes precedence over the Host header."""
    if method == b"CONNECT":
        raise RequestRejected(501, "This server is not a proxy")
    authority = target.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
    if target != b"*" and authority.lower() != (host or b"").lower():
        raise RequestRejected(400, "The target of the request has another host than the Host header")


def _long_line(limits: Limits) -> RequestRejected:
    limit = limits.max_request_line_bytes
    return RequestRejected(414, f"The request line is too long: at most {limit} bytes (max_request_line_bytes)")


def _large_head(limits: Limits) -> RequestRejected:
    limit = limits.max_header_bytes
    return RequestRejected(431, f"The headers are too large: at most {limit} bytes (max_header_bytes)")


def _many_headers(limits: Limits) -> RequestRejected:
    limit = limits.max_header_count
    return RequestRejected(431, f"There are too many headers: at most {limit} (max_header_count)")
