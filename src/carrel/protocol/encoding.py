"""JSON encoder of all outgoing messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from carrel.protocol.revision import Revision
from carrel.wire.base import Id
from carrel.wire.jsonrpc import ErrorMessage, ErrorObject, NotificationMessage

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension

__all__ = [
    *("BACKSLASH", "CR", "FOREIGN", "KEY", "LF", "MARK", "encode", "encode_error", "encode_event", "has_same_strings"),
    *("merged", "restored"),
]

#: Bytes as integers, for ``in``: with bytes in bytes, CPython raises and clears a TypeError first.
LF, CR, BACKSLASH = b"\n\r\\"


def _foreign(value: Any) -> Any:
    """Encode pydantic models, which msgspec does not support, without importing pydantic; an ``enc_hook``."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} cannot be turned into JSON")
    return dump(mode="json", by_alias=True)


#: Key of ``_meta`` for members that are passed on, see ``carrel.protocol.unknown``. No peer knows it.
#: ``data.find(MARK) >= 0`` costs less than ``MARK in data``, see above.
KEY = f"carrel/{os.urandom(8).hex()}"
MARK = f'"{KEY}"'.encode()
#: Key of the trees of members: the value of it takes the place of the whole object.
FOREIGN = f"{KEY}/block"

encode = msgspec.json.Encoder(enc_hook=_foreign).encode


def has_same_strings(raw: bytes, encoded: bytes) -> bool:
    """Return whether two encodings of one value have as many strings, names of members included. False if unknown.

    They have as many quotes then. Only an escaped quote may be written differently.
    """
    return raw.count(b'"') == encoded.count(b'"') and b"\\u0022" not in raw


def restored(data: bytes) -> bytes:
    """Return an encoded message that contains ``MARK`` with the members that are passed on in their places.

    Nothing that the types know is replaced.
    """
    message = msgspec.json.decode(data)
    put_back(message)
    return encode(message)


def put_back(value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            put_back(each)
    elif isinstance(value, dict):
        meta = value.get("_meta")
        unknown = meta.pop(KEY, None) if isinstance(meta, dict) else None
        if unknown is not None:
            if not meta:
                del value["_meta"]
            merge(value, unknown)
        for each in value.values():
            put_back(each)


def merge(value: Any, unknown: Mapping[str, Any]) -> None:
    if isinstance(value, dict):
        for name, each in unknown.items():
            if name not in value:
                value[name] = each
            elif isinstance(each, dict):
                value[name] = each[FOREIGN] if FOREIGN in each else merged(value[name], each)
    elif isinstance(value, list):
        for index, each in unknown.items():
            if index.isdecimal() and (at := int(index)) < len(value):
                value[at] = each[FOREIGN] if FOREIGN in each else merged(value[at], each)


def merged(value: Any, unknown: Mapping[str, Any]) -> Any:
    """Add unknown members to a decoded JSON value at every level, and return the value."""
    merge(value, unknown)
    return value


def encode_event(revision: Revision, event: str, params: Any = UNSET, extension: Extension | None = None) -> bytes:
    """Encode a notification from the server, by its name in Carrel, for ``revision`` or ``extension``."""
    if isinstance(params, msgspec.Struct):
        params = revision.project(params)
    return encode(NotificationMessage("2.0", (extension or revision).events[event].method, params))


def encode_error(id: Id | UnsetType | None, code: int, message: str, data: Any = UNSET) -> bytes:
    """Encode an error response. ``id`` is None (null) or UNSET (omitted) if the request's id could not be read."""
    return encode(ErrorMessage("2.0", id, ErrorObject(code, message, data)))
