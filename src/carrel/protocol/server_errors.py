"""Exceptions as JSON-RPC errors, and invalid input as exceptions."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from carrel.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    InvalidMessage,
    InvalidParams,
    MissingCapability,
    ProtocolError,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
)
from carrel.protocol.revision import Revision
from carrel.wire.jsonrpc import ErrorObject

__all__ = ["error_object", "invalid_params", "unreadable"]


def error_object(error: BaseException, revision: Revision) -> ErrorObject:
    """Convert an exception to the JSON-RPC error of a revision.

    In 2026-07-28, "not found" has the code of invalid parameters too. Its data is exactly ``{"uri": …}``; the data of
    every other error about a resource also has a ``reason``.
    """
    if isinstance(error, MissingCapability) and not revision.stateless:
        return ErrorObject(
            INVALID_REQUEST, f"The client does not offer {', '.join(error.data['requiredCapabilities'])}"
        )
    if isinstance(error, ProtocolError):
        return ErrorObject(error.code, error.message, UNSET if error.data is None else error.data)
    if isinstance(error, ResourceNotFound | ResourceForbidden):
        return ErrorObject(revision.not_found, "Resource not found", {"uri": error.uri})
    if isinstance(error, ResourceError):
        return ErrorObject(error.code, error.message, {"uri": error.uri, "reason": error.reason})
    return ErrorObject(INTERNAL_ERROR, "Internal error")


def invalid_params(error: msgspec.ValidationError) -> InvalidParams:
    """Return the error that names the invalid or missing parameter."""
    reason, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if reason.startswith("Object missing required field"):
        name = reason.split("`")[1]
        path = f"{path}.{name}" if path else name
        invalid = InvalidParams(f"Invalid params: {path} is missing", parameter=path)
    else:
        invalid = InvalidParams(f"Invalid params: {path or 'params'}: {reason}", parameter=path or None)
    if path.startswith("_meta"):
        invalid.status = 400
    return invalid


def unreadable(error: Exception) -> InvalidMessage:
    """Return the error of a message that cannot be decoded."""
    if isinstance(error, RecursionError):
        return InvalidMessage("Parse error: nested too deeply", PARSE_ERROR)
    if isinstance(error, msgspec.ValidationError):
        return InvalidMessage(f"Invalid request: {error}", INVALID_REQUEST)
    return InvalidMessage("Parse error: not valid JSON in UTF-8", PARSE_ERROR)
