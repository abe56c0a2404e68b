"""Resource contents from the return values of resource functions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.late import is_instance
from carrel.media_types import type_of_name
from carrel.protocol.json_values import to_json
from carrel.wire.base import Meta
from carrel.wire.resources import BlobResourceContents, TextResourceContents

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import TypeIs

__all__ = ["Contents", "contents_of", "is_path", "returns_paths"]


class Contents(msgspec.Struct):
    """One content of a resource, with a separate MIME type, URI or ``_meta``.

    ``data`` is a ``str`` (text), ``bytes`` (a blob), a ``Path`` (a file's bytes), or anything JSON can hold.
    ``uri`` is set if it differs from the requested URI, for example for the files of a directory.
    """

    data: Any
    mime_type: str | None = None
    uri: str | None = None
    meta: Meta | None = None


def contents_of(value: Any, uri: str, mime_type: str | None) -> list[TextResourceContents | BlobResourceContents]:
    """Convert the return value of a resource function to resource contents.

    Text becomes text, bytes and images a blob, several contents stay several, and everything else becomes JSON.

    Raises:
        TypeError: the value cannot be encoded as JSON.
        OSError: a ``Path`` cannot be read.
    """
    if type(value) is str:
        return [TextResourceContents(uri, value, mime_type=mime_type or "text/plain")]
    if isinstance(value, (list, tuple)) and value and all(_is_contents(item) for item in value):
        return [_one(item, uri, mime_type) for item in value]
    return [_one(value, uri, mime_type)]


def _is_contents(value: Any) -> bool:
    return isinstance(value, (Contents, TextResourceContents, BlobResourceContents))


def _one(value: Any, uri: str, mime_type: str | None) -> TextResourceContents | BlobResourceContents:
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return value
    meta: Meta | None = None
    if isinstance(value, Contents):
        uri, meta = value.uri or uri, value.meta
        mime_type = value.mime_type or mime_type
        value = value.data
    if is_path(value):
        mime_type = mime_type or type_of_name(value.name)
        value = value.read_bytes()
        text = _as_text(value, mime_type)
        value = value if text is None else text
    if isinstance(value, str):
        return TextResourceContents(uri, value, mime_type=mime_type or "text/plain", meta=meta)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BlobResourceContents(uri, bytes(value), mime_type=mime_type or "application/octet-stream", meta=meta)
    if hasattr(value, "to_block") or "PIL.Image" in sys.modules:
        from carrel.server.media import contents_of_data, media_of

        media = media_of(value)
        if media is not None:
            contents = contents_of_data(media.data, mime_type or media.mime_type, uri)
            contents.meta = meta
            return contents
    return TextResourceContents(uri, to_json(value).decode(), mime_type=mime_type or "application/json", meta=meta)


def is_path(value: object) -> TypeIs[Path]:
    """Return whether a value is a ``Path``. ``pathlib`` is not imported for this: its import takes 4 ms."""
    return is_instance(value, "pathlib", "Path")


def _as_text(data: bytes, mime_type: str | None) -> str | None:
    if mime_type and mime_type.partition("/")[0] in ("image", "audio", "video"):
        return None
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def returns_paths(value: Any) -> bool:
    """Return whether converting ``value`` to contents reads files, and so belongs into a thread."""
    if isinstance(value, Contents):
        value = value.data
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return any(returns_paths(item) for item in value if isinstance(item, Contents) or is_path(item))
    return is_path(value)
