"""Change of URIs in encoded results. Members that are not known here stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from carrel.errors import INTERNAL_ERROR, ProtocolError
from carrel.printable import printable
from carrel.protocol.connection import UNREADABLE
from carrel.protocol.encoding import encode

__all__ = ["change_uris"]

_decode = msgspec.json.Decoder().decode


def change_uris(result: bytes, change: Callable[[str], str]) -> bytes:
    """Return the encoded result of a read, a tool call or a prompt with other URIs.

    ``change`` returns the new URI. The URIs are in contents, embedded resources and links. If a member
    may be repeated, the last one counts, and only that is returned.

    Raises:
        ProtocolError: the result cannot be decoded, for example as a number is out of range.
    """
    if b'"uri"' not in result and b"\\u00" not in result:  # a member name may contain an escaped letter
        return result
    try:
        value = _decode(result)
    except UNREADABLE as error:
        wrong = ProtocolError(f"The result of a server is not valid: {printable(error)}")
        wrong.code = INTERNAL_ERROR
        raise wrong from None
    blocks = [*_objects(value.get("content")), *(each.get("content") for each in _objects(value.get("messages")))]
    holders = _objects(value.get("contents"))
    for block in _objects(blocks):
        kind = block.get("type")
        if kind == "resource_link":
            holders.append(block)
        elif kind == "resource":
            holders += _objects([block.get("resource")])
    changed = result.count(b'"uri"') != len(holders) or b"\\u00" in result
    for holder in holders:
        uri = holder.get("uri")
        if isinstance(uri, str) and (new := change(uri)) != uri:
            holder["uri"], changed = new, True
    return encode(value) if changed else result


def _objects(values: Any) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []
