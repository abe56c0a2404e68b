"""Lenient reading of arguments, as models send them: numbers, booleans, lists and objects as text, null for nothing.

Only arguments that do not fit their schema come here, so that "5" stays text where a parameter accepts text.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw, ValidationError
from msgspec.structs import asdict

from carrel.protocol.json_values import DECODING_ERRORS, read_foreign
from carrel.server.schema.parameter import Parameter

__all__ = ["json_in_text", "read_leniently"]


def read_leniently(
    struct: type[msgspec.Struct], arguments: bytes | Raw, parameters: Sequence[Parameter]
) -> dict[str, Any]:
    """Decode a JSON object of arguments into the fields of a struct.

    Takes "5" for an integer, "5.5" for a number, "true" for a boolean, at any depth; for a parameter itself also the
    JSON of an array or object as text, and null if it has a default. ``parameters`` are the parameters of the struct.

    Raises:
        msgspec.DecodeError: they cannot be read leniently either.
    """
    members = msgspec.json.decode(arguments, type=dict[str, Raw])
    for parameter in parameters:
        raw = bytes(members.get(parameter.alias, b""))
        if parameter.by_pydantic or not (raw[:1] == b'"' or raw == b"null") or fits(raw, parameter.annotation):
            continue
        if raw == b"null":
            if not parameter.required:
                del members[parameter.alias]
            continue
        text = json_in_text(msgspec.json.decode(raw, type=str))
        if text is not None:
            members[parameter.alias] = Raw(text)
    loosened = msgspec.json.encode(members)
    values = asdict(msgspec.json.decode(loosened, type=struct, strict=False, dec_hook=read_foreign))
    for parameter in parameters:
        if parameter.alias in members and not is_finite(values.get(parameter.name)):
            raise ValidationError(f"Expected `float`, got `str` - at `$.{parameter.alias}`")  # "nan" and "inf"
    return values


def fits(raw: bytes, annotation: Any) -> bool:
    """Return whether a JSON value can be decoded to a type as it is."""
    try:
        msgspec.json.decode(raw, type=annotation, dec_hook=read_foreign)
    except DECODING_ERRORS:
        return False
    return True


def json_in_text(text: str) -> bytes | None:
    """Return the JSON array, object or null that a text is; None if it is something else."""
    encoded = text.strip().encode()
    if encoded[:1] not in (b"[", b"{") and encoded != b"null":
        return None
    try:
        msgspec.json.decode(encoded)
    except DECODING_ERRORS:
        return None
    return encoded


def is_finite(value: Any) -> bool:
    """Return whether there is neither infinity nor NaN in a number, a list or a dictionary."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return all(map(is_finite, value)) if isinstance(value, list | tuple | set | frozenset) else True
