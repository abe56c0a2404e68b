"""Conversion between Python values and JSON, and the error for invalid arguments.

Includes types that msgspec does not support: pydantic models, paths, mappings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

__all__ = [
    "DECODING_ERRORS",
    "InvalidArguments",
    "join_path",
    "read_foreign",
    "rounded",
    "to_json",
    "to_jsonable",
    "without_nulls",
    "write_foreign",
]

# TypeError: an unhashable value for a set.
DECODING_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)


class InvalidArguments(ValueError):
    """The arguments of a call are invalid. The message says what to change, in words a model can act on.

    ``parameter`` names the invalid argument, or is None if it is all of them; ``path`` is the location within it.
    """

    def __init__(self, message: str, parameter: str | None = None, path: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.path = path or parameter


def to_jsonable(value: Any) -> Any:
    """Convert a value to JSON types: dictionaries, lists, strings, numbers, booleans and None.

    Supports dataclasses, Structs, pydantic models (by alias), enums, dates, sets, bytes (base64), paths and more.

    Raises:
        TypeError: the value cannot be encoded as JSON.
    """
    if hasattr(type(value), "__pydantic_serializer__"):
        return write_foreign(value)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=write_foreign)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without null members, at any depth."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def to_json(value: Any) -> bytes:
    """Encode a value as JSON, converting it as ``to_jsonable`` does.

    Raises:
        TypeError: the value cannot be encoded as JSON.
    """
    if hasattr(type(value), "__pydantic_serializer__"):
        value = write_foreign(value)
    return msgspec.json.encode(value, enc_hook=write_foreign)


def write_foreign(value: Any) -> Any:
    """Convert a value of a type that msgspec does not support; an ``enc_hook``."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(type(value), "__pydantic_serializer__"):
        return type(value).__pydantic_serializer__.to_python(value, mode="json", by_alias=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    from carrel.protocol.tables import array_values, is_frame, records_of  # few values are one

    return records_of(value) if is_frame(value) else array_values(value)


def read_foreign(kind: type, value: Any) -> Any:
    """Convert a string to a path, the standard library type that msgspec does not decode; a ``dec_hook``."""
    if isinstance(value, str):
        return kind(value)
    name = {type(None): "null", list: "array", dict: "object"}.get(type(value), type(value).__name__)
    raise TypeError(f"Expected `str`, got `{name}`")  # msgspec adds the path


def rounded(arguments: bytes | msgspec.Raw) -> bytes:
    """Return the JSON with integral floats written as integers."""

    def round_all(value: Any) -> Any:
        if type(value) is float and value.is_integer():
            return int(value)
        if type(value) is list:
            return [round_all(item) for item in value]
        if type(value) is dict:
            return {name: round_all(item) for name, item in value.items()}
        return value

    try:
        return msgspec.json.encode(round_all(msgspec.json.decode(arguments)))
    except RecursionError:
        return bytes(arguments)


def join_path(location: Sequence[str | int]) -> str:
    """Format a location in a value as a path, in Python syntax: ``size[0].unit``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")[:200]
