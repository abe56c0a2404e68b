"""JSON-RPC 2.0 envelopes.

https://modelcontextprotocol.io/specification/2026-07-28/basic#messages
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.wire.base import Id


class Message(msgspec.Struct, gc=False):
    """Any message as it comes in: parameters, result and error stay raw until it is clear what they are."""

    jsonrpc: str | UnsetType = UNSET
    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Identified(msgspec.Struct, gc=False):
    """No more than the id of a message, for when the rest of it is wrong."""

    id: Any = UNSET


class RequestMessage(msgspec.Struct, gc=False):
    """A request on its way out."""

    jsonrpc: str
    id: Id
    method: str
    params: Any


class ResponseMessage(msgspec.Struct, gc=False):
    """A result on its way out."""

    jsonrpc: str
    id: Id
    result: Any


class NotificationMessage(msgspec.Struct, omit_defaults=True, gc=False):
    """A notification on its way out. ``jsonrpc`` has no default, so that it is never left out."""

    jsonrpc: str
    method: str
    params: Any = UNSET


class ErrorObject(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = UNSET


class ErrorResponse(msgspec.Struct, omit_defaults=True):
    """An error on its way out. ``id`` is None when it could not be read, UNSET where it must not be there."""

    jsonrpc: str
    id: Id | UnsetType | None
    error: ErrorObject
