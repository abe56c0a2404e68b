"""JSON-RPC 2.0 messages: requests, responses, notifications and errors.

https://modelcontextprotocol.io/specification/2026-07-28/basic#messages
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.wire.base import Id


class Message(msgspec.Struct, gc=False):
    """An incoming message of any kind: parameters, result and error stay raw until their types are known.

    Absent members are UNSET: a null id, result or error is not the same as none.
    """

    jsonrpc: str | UnsetType = UNSET
    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Identified(msgspec.Struct, gc=False):
    """The id of a message, for messages that are otherwise invalid."""

    id: Any = UNSET


class RequestMessage(msgspec.Struct, gc=False):
    """An outgoing request."""

    jsonrpc: str
    id: Id
    method: str
    params: Any


class ResponseMessage(msgspec.Struct, gc=False):
    """An outgoing response with a result."""

    jsonrpc: str
    id: Id
    result: Any


class NotificationMessage(msgspec.Struct, omit_defaults=True, gc=False):
    """An outgoing notification. ``jsonrpc`` has no default, so that it is never omitted."""

    jsonrpc: str
    method: str
    params: Any = UNSET


class ErrorObject(msgspec.Struct, omit_defaults=True):
    """An error. ``data`` is UNSET if absent, because null is data too."""

    code: int
    message: str
    data: Any = UNSET


class ErrorMessage(msgspec.Struct, omit_defaults=True):
    """An outgoing error response. ``id`` is None if it could not be read, UNSET where it must be absent."""

    jsonrpc: str
    id: Id | UnsetType | None
    error: ErrorObject
