"""Streamable HTTP without I/O: header validation and encoding, and the SSE event format.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

from carrel.errors import HeaderMismatch
from carrel.protocol.server import Call

__all__ = ["SAFE_INTEGER", "decode_value", "encode_value", "event", "header_parameters", "verify", "verify_parameters"]

PARAMETER_PREFIX = b"mcp-param-"
TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
#: Finds bytes that are not allowed in a header value.
_NOT_PLAIN = re.compile(rb"[^\t\x20-\x7e]").search
#: Fast path: matches header values that need no decoding, as most names are.
_LITERAL = re.compile(rb"[!-<>-~]+").fullmatch
SAFE_INTEGER = 2**53 - 1


def event(data: bytes, id: str = "", retry: int | None = None, name: str = "") -> bytes:
    """Encode one server-sent event. ``data`` is one line; ``retry`` is in milliseconds; ``name`` is its type."""
    head = b"id: %b\n" % id.encode() if id else b""
    if name:
        head += b"event: %b\n" % name.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return b"%bdata: %b\n\n" % (head, data)


def verify(call: Call, headers: Mapping[bytes, bytes]) -> None:
    """Validate the headers of a stateless request against its body.

    ``headers`` have lower-case names. https://…/streamable-http#server-validation

    Raises:
        HeaderMismatch: a header is missing, malformed, or differs from the body.
    """
    _compare("MCP-Protocol-Version", headers.get(b"mcp-protocol-version"), call.peer.revision.name)
    _compare("Mcp-Method", headers.get(b"mcp-method"), call.request.method)
    field = call.request.name_field
    if field is not None:
        _compare("Mcp-Name", headers.get(b"mcp-name"), getattr(call.params, field), encoded=True)


def _compare(name: str, header: bytes | None, body: str, *, encoded: bool = False) -> None:
    if header is None:
        raise HeaderMismatch(f"Header mismatch: the {name} header is missing")
    if _LITERAL(header) and header.decode("ascii") == body:
        return
    value = decode_value(name, header) if encoded else _text(name, header)
    if value != body:
        raise HeaderMismatch(
            f"Header mismatch: {name} header value {value[:200]!r} does not match body value {body[:200]!r}"
        )


def _text(name: str, header: bytes) -> str:
    if _NOT_PLAIN(header):
        raise HeaderMismatch(f"Header mismatch: the {name} header contains invalid characters")
    return header.decode("ascii").strip(" \t")  # optional white space is not part of the value (RFC 9110, 5.5)


def decode_value(name: str, header: bytes) -> str:
    """Decode a header value that may be in its base64 form, ``=?base64?…?=``.

    https://…/streamable-http#value-encoding
    """
    text = _text(name, header)
    if not (text.startswith("=?base64?") and text.endswith("?=") and len(text) >= 11):
        return text
    try:
        return binascii.a2b_base64(text[9:-2], strict_mode=True).decode("utf-8")
    except ValueError:
        raise HeaderMismatch(f"Header mismatch: the {name} header is not valid base64 of UTF-8") from None


def encode_value(value: str | int | bool) -> str:
    """Encode a header value: unchanged where possible, otherwise in its base64 form.

    https://…/streamable-http#value-encoding
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    plain = text.isascii() and (text.isprintable() or all(" " <= letter < "\x7f" or letter == "\t" for letter in text))
    if plain and text.strip(" \t") == text and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{binascii.b2a_base64(text.encode(), newline=False).decode()}?="


def header_parameters(schema: Mapping[str, Any]) -> dict[bytes, tuple[str, ...]]:
    """Return the tool parameters that are mirrored in headers: lower-case header name -> path of the property.

    https://…/streamable-http#custom-headers-from-tool-parameters

    Raises:
        ValueError: an ``x-mcp-header`` is in an invalid place, or is not a valid header name.
    """
    found: dict[bytes, tuple[str, ...]] = {}
    _collect(schema, (), found, reachable=True)
    return found


def _collect(schema: Any, path: tuple[str, ...], found: dict[bytes, tuple[str, ...]], *, reachable: bool) -> None:
    if isinstance(schema, Sequence) and not isinstance(schema, str | bytes):
        for item in schema:
            _collect(item, path, found, reachable=False)
    if not isinstance(schema, Mapping):
        return
    if "x-mcp-header" in schema:
        name, where = schema["x-mcp-header"], ".".join(path) or "the schema itself"
        if not (isinstance(name, str) and name and all(byte in TOKEN for byte in name.encode())):
            raise ValueError(f"x-mcp-header of {where}: {name!r} is not a header name")
        if not (reachable and path):
            raise ValueError(f"x-mcp-header of {where}: only properties reached through properties alone may have one")
        if schema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header of {where}: only strings, integers and booleans may have one")
        header = PARAMETER_PREFIX + name.lower().encode()
        if header in found:
            raise ValueError(f"x-mcp-header of {where}: {name!r} is used twice")
        found[header] = path
    for keyword, value in schema.items():
        if keyword in ("const", "default", "enum", "examples"):
            continue  # values, not schemas
        if keyword == "properties" and isinstance(value, Mapping):
            for property, inner in value.items():
                _collect(inner, (*path, property), found, reachable=reachable)
        else:
            _collect(value, (*path, keyword), found, reachable=False)


def verify_parameters(
    expected: Mapping[bytes, tuple[str, ...]], headers: Mapping[bytes, bytes], arguments: Mapping[str, Any]
) -> None:
    """Check the ``Mcp-Param-`` headers of a tool call against its arguments.

    Raises:
        HeaderMismatch: a header is missing, malformed, differs from the argument, or has no argument.
    """
    for header, path in expected.items():
        value: Any = arguments
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        name = header.decode().title()
        given = headers.get(header)
        if value is None:
            if given is not None:
                raise HeaderMismatch(f"Header mismatch: {name} is there, but {'.'.join(path)} is not in the arguments")
            continue
        if given is None:
            raise HeaderMismatch(f"Header mismatch: the {name} header is missing")
        text = decode_value(name, given)
        if isinstance(value, int) and abs(value) > SAFE_INTEGER:
            raise HeaderMismatch(f"Header mismatch: {name} header value does not match: integers go to {SAFE_INTEGER}")
        if not _same(text, value):
            raise HeaderMismatch(f"Header mismatch: {name} header value {text[:200]!r} does not match the argument")


def _same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        if "_" in text:  # a number in Python only
            return False
        try:
            number = float(text)
        except ValueError:
            return False
        return bool(number == value) and abs(number) <= SAFE_INTEGER
    return bool(text == value)
