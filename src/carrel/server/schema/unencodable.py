"""Error messages for values that cannot be encoded as JSON, with the path of the invalid part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec

from carrel.protocol.json_values import join_path, to_json, to_jsonable

__all__ = ["explain_unencodable"]

MAX_DEPTH = 50


def explain_unencodable(value: Any, error: BaseException) -> str:
    """Return an error message such as "the type socket cannot be encoded as JSON, at result.items[2]".

    ``error`` is the exception of the encoder.
    """
    if isinstance(error, RecursionError) or "recursion" in str(error).lower():
        return "the result contains itself, or is nested too deeply for JSON"
    path: list[str | int] = ["result"]
    part = value
    while len(path) < MAX_DEPTH:
        found = next(((step, item) for step, item in parts_of(part) if not is_json(item)), None)
        if found is None:
            break
        path.append(found[0])
        part = found[1]
    message = f"the type {type(part).__qualname__} cannot be encoded as JSON, at {join_path(path)}"
    reason = str(error).partition("\n")[0][:300]
    return (
        message if isinstance(error, TypeError) and "cannot be encoded as JSON" in reason else f"{message} ({reason})"
    )


def is_json(value: Any) -> bool:
    """Return whether a value can be encoded as JSON."""
    try:
        to_json(to_jsonable(value))
    except Exception:
        return False
    return True


def parts_of(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the parts of a value, each with its key, its index or the name of its field."""
    if isinstance(value, Mapping):
        yield from ((str(key)[:100], item) for key, item in value.items())
    elif isinstance(value, list | tuple | Set):
        yield from enumerate(value)
    elif isinstance(value, msgspec.Struct):
        yield from ((name, getattr(value, name)) for name in value.__struct_fields__)
    elif dataclasses.is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif hasattr(type(value), "model_fields"):
        yield from ((name, getattr(value, name)) for name in type(value).model_fields)
