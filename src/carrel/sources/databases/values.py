"""Convert database values to JSON and text without loss, or with a note about omitted data.

decimal                 "12.50"                 a string: JSON readers make a binary fraction of a number
integer over 2**53      "9007199254740993"      a string, for the same reason
date, time, interval    "2024-02-29", …         as the database writes them, also "infinity" and "0000-00-00"
bytes                   {"base64": "…", "bytes": 3}
JSON                    itself, digit by digit
array, list, struct     arrays and objects of these
unknown, spatial        the text of the database; the type is among the columns
"""

from __future__ import annotations

import binascii
import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from carrel.sources.databases.failure import DatabaseFailed

__all__ = ["MAX_DEPTH", "json_value", "size_of", "text_value"]

MAX_SAFE = 2**53 - 1
MAX_DEPTH = 50
MAX_SHOWN = 4096  # bytes of binary data in a table of Markdown or CSV


def json_value(value: Any, type: str = "", depth: int = 0) -> Any:
    """Return a value as JSON has it; ``type`` is the type of its column, as the database writes it.

    Raises:
        DatabaseFailed: it is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise DatabaseFailed(f"a value is nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return json_text(value) if type.lower() in ("json", "jsonb") else value
    if isinstance(value, int):
        return value if -MAX_SAFE <= value <= MAX_SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return {"base64": binascii.b2a_base64(data, newline=False).decode(), "bytes": len(data)}
    if isinstance(value, Mapping):
        return {str(key): json_value(inner, "", depth + 1) for key, inner in value.items()}
    if hasattr(value, "items") and hasattr(value, "keys"):  # a composite value of PostgreSQL
        return {str(key): json_value(inner, "", depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        element = type.removesuffix("[]")
        return [json_value(inner, element, depth + 1) for inner in value]
    return plain_text(value)


def json_text(text: str) -> Any:
    """Return JSON unchanged, with all its digits, or a string if the text is not JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return msgspec.Raw(text.encode())


def plain_text(value: Any) -> str:
    """Return the text of a scalar value."""
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def text_value(value: Any, type: str = "") -> str:
    """Return a value as text for a table of Markdown or CSV. None is empty; bytes are hexadecimal."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        more = f"… ({len(data):,} bytes)" if len(data) > MAX_SHOWN else ""
        return f"0x{data[:MAX_SHOWN].hex()}{more}"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset) or hasattr(value, "items"):
        return msgspec.json.encode(json_value(value, type)).decode()
    return plain_text(value)


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in an answer."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) + 3
    if isinstance(value, bytes | bytearray | memoryview):
        return len(value) * 4 // 3 + 30
    if isinstance(value, Mapping):
        return sum(size_of(key) + size_of(inner) for key, inner in value.items()) + 2
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(size_of, value)) + 2
    return 12 if value is None or isinstance(value, int | float) else len(str(value)) + 3
