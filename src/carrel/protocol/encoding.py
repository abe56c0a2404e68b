"""JSON encoder of all outgoing messages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from carrel.protocol.revision import Revision
from carrel.wire.base import Id
from carrel.wire.jsonrpc import ErrorMessage, ErrorObject, NotificationMessage

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension

__all__ = ["KEY", "MARK", "encode", "encode_error", "encode_event", "restored"]


def _foreign(value: Any) -> Any:
    """Encode pydantic models, which msgspec does not support, without importing pydantic; an ``enc_hook``."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} cannot be turned into JSON")
    return dump(mode="json", by_alias=True)


#: Key of ``_meta`` for members that are passed on, see ``carrel.protocol.unknown``. No peer knows it.
KEY = f"carrel/{os.urandom(8).hex()}"
MARK = f'"{KEY}"'.encode()

encode = msgspec.json.Encoder(enc_hook=_foreign).encode


def restored(data: bytes) -> bytes:
    """Return an encoded message that contains ``MARK`` with the members that are passed on in their places."""
    from carrel.protocol.unknown import spread  # few servers pass anything on

    return spread(data)


def encode_event(revision: Revision, event: str, params: Any = UNSET, extension: Extension | None = None) -> bytes:
    """Encode a notification from the server, by its name in Carrel, for ``revision`` or ``extension``."""
    if isinstance(params, msgspec.Struct):
        params = revision.project(params)
    return encode(NotificationMessage("2.0", (extension or revision).events[event].method, params))


def encode_error(id: Id | UnsetType | None, code: int, message: str, data: Any = UNSET) -> bytes:
    """Encode an error response. ``id`` is None (null) or UNSET (omitted) if the request's id could not be read."""
    return encode(ErrorMessage("2.0", id, ErrorObject(code, message, data)))
