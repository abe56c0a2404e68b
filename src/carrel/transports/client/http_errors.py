"""HTTP error responses: conversion to ``MCPError``, and the Retry-After header.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#sending-messages
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from msgspec import UNSET

from carrel.errors import HTTPStatusError, MCPError
from carrel.printable import printable
from carrel.protocol.connection import read_error
from carrel.wire.jsonrpc import Message

__all__ = ["read_error_of_body", "read_error_response"]

_read_message = msgspec.json.Decoder(Message).decode


def read_error_response(name: str, status: int, body: bytes, retry_after: str | None) -> MCPError:
    """Return the exception for an HTTP error response: the JSON-RPC error in ``body``, or else an ``HTTPStatusError``.

    ``name`` is the server as shown in the message, ``retry_after`` the value of the Retry-After header.
    """
    error = read_error_of_body(body)
    if error is not None:
        return read_error(error, status)
    said = printable(" ".join(body[:1000].decode("utf-8", "replace").split()), 200)
    return HTTPStatusError(
        status, f"{name} answered {status}{': ' if said else ''}{said}", retry_after=read_retry_after(retry_after)
    )


def read_error_of_body(body: bytes) -> msgspec.Raw | None:
    """Return the error of a JSON-RPC message with any id, or None. The error of OAuth is a string, not an object."""
    try:
        message = _read_message(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if message.error is UNSET or bytes(message.error)[:1] != b"{" else message.error


def read_retry_after(value: str | None) -> float | None:
    """Parse a Retry-After header, a number of seconds or a date, and return seconds (at most a day)."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(min(int(value[:10]), 86_400))
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, min((when - datetime.now(UTC)).total_seconds(), 86_400.0))
