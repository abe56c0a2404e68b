"""The one JSON encoder. Everything that leaves goes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from carrel.protocol.revision import Revision
from carrel.wire.base import Id
from carrel.wire.jsonrpc import ErrorObject, ErrorResponse, NotificationMessage

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension

__all__ = ["encode", "encode_error", "encode_event"]


def _foreign(value: Any) -> Any:
    """Encode what msgspec does not know: pydantic models, without importing pydantic."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} cannot be turned into JSON")
    return dump(mode="json", by_alias=True)


encode = msgspec.json.Encoder(enc_hook=_foreign).encode


def encode_event(revision: Revision, event: str, params: Any = UNSET, extension: Extension | None = None) -> bytes:
    """Encode a notification from the server, by our name for it, as ``revision`` or ``extension`` has it."""
    if isinstance(params, msgspec.Struct):
        params = revision.project(params)
    return encode(NotificationMessage("2.0", (extension or revision).events[event], params))


def encode_error(id: Id | UnsetType | None, code: int, message: str, data: Any = UNSET) -> bytes:
    """Encode an error response. ``id`` is None (null) or UNSET (left out) when the request's could not be read."""
    return encode(ErrorResponse("2.0", id, ErrorObject(code, message, data)))
