"""Request bodies of ``multipart/form-data``: which properties are files, how a tool takes them, and their encoding.

https://www.rfc-editor.org/rfc/rfc7578
https://spec.openapis.org/oas/v3.1.1.html#encoding-multipart-media-types
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any

import msgspec

from carrel.errors import InvalidParams
from carrel.sources.openapi.document import ApiDocuments, Location
from carrel.sources.openapi.parameters import text_of

__all__ = ["FILE", "MULTIPART", "encode_multipart", "files_of", "types_of"]

MULTIPART = "multipart/form-data"
FILE: dict[str, Any] = {
    "description": "a file: its text, or an object",
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "contents of the file, if it is text"},
                "base64": {"type": "string", "description": "contents of the file in Base64, if it is binary"},
                "filename": {"type": "string", "default": "file"},
                "type": {"type": "string", "description": "its media type"},
            },
            "oneOf": [{"required": ["text"]}, {"required": ["base64"]}],
            "additionalProperties": False,
        },
    ],
}
"""Schema of the argument for a file."""

_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}(; ?charset=[A-Za-z0-9-]{1,40})?")


def files_of(documents: ApiDocuments, properties: Mapping[str, Any], base: Location) -> dict[str, bool]:
    """Return the properties of a body that are files, and whether each is a list of them."""
    found: dict[str, bool] = {}
    for name, given in properties.items():
        schema, where = documents.resolve(given, base)
        items, _ = documents.resolve(schema.get("items") if isinstance(schema, dict) else None, where)
        if is_file(schema) or is_file(items):
            found[name] = is_file(items)
    return found


def is_file(schema: Any) -> bool:
    """Return whether a schema describes bytes, in OpenAPI 3.0 or 3.1."""
    if not isinstance(schema, dict) or schema.get("type") not in (None, "string", "file"):
        return False
    return schema.get("type") == "file" or schema.get("format") in ("binary", "byte") or "contentMediaType" in schema


def encode_multipart(body: Any, files: Mapping[str, bool], types: Mapping[str, str]) -> tuple[bytes, str]:
    """Return a body and its media type with the boundary. ``types`` are the media types of properties.

    Raises:
        InvalidParams: the body is not an object, or the argument of a file is not valid.
    """
    if not isinstance(body, dict):
        raise InvalidParams("Invalid params: body: a form is an object", parameter="body")
    boundary = f"carrel-{token_hex(16)}"
    parts = []
    for name, value in body.items():
        for one in value if isinstance(value, list) else [value]:
            head, data = file_part(name, one) if name in files else plain_part(one)
            kind = head.get("type") or types.get(name) or ("application/octet-stream" if name in files else None)
            line = f'Content-Disposition: form-data; name="{quoted(name)}"'
            if "filename" in head:
                line += f'; filename="{quoted(head["filename"])}"'
            if kind is not None and _TYPE.fullmatch(kind) is None:
                raise InvalidParams(
                    f"Invalid params: body: {name}: {kind[:50]!r} is not a media type", parameter="body"
                )
            line += f"\r\nContent-Type: {kind}" if kind else ""
            parts.append(f"--{boundary}\r\n{line}\r\n\r\n".encode() + data + b"\r\n")
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"{MULTIPART}; boundary={boundary}"


def plain_part(value: Any) -> tuple[dict[str, str], bytes]:
    """Return the headers and the data of a part that is not a file: a scalar as text, an object as JSON."""
    if isinstance(value, dict | list):
        return {"type": "application/json"}, msgspec.json.encode(value)
    return {}, text_of(value).encode()


def file_part(name: str, value: Any) -> tuple[dict[str, str], bytes]:
    """Return the headers and the data of a file.

    Raises:
        InvalidParams: the value is neither a text nor an object with a text, or its base64 is not valid.
    """
    given = value if isinstance(value, dict) else {"text": value}
    head = {"filename": str(given.get("filename") or "file")}
    if given.get("type"):
        head["type"] = str(given["type"])
    text, coded = given.get("text"), given.get("base64")
    if isinstance(text, str):
        return head, text.encode()
    if not isinstance(coded, str):
        raise InvalidParams(f"Invalid params: body: {name}: a file has text or base64", parameter="body")
    try:
        return head, binascii.a2b_base64(coded, strict_mode=True)
    except ValueError:
        raise InvalidParams(f"Invalid params: body: {name}: this is not base64", parameter="body") from None


def quoted(name: str) -> str:
    """Return a name for a header of a part, as browsers escape it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A").replace("\0", "")


def types_of(media: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the media types of properties in a description, if each is a single media type."""
    encoding = media.get("encoding")
    for name, given in encoding.items() if isinstance(encoding, dict) else ():
        kind = given.get("contentType") if isinstance(given, dict) else None
        if isinstance(kind, str) and _TYPE.fullmatch(kind):
            yield str(name), kind
