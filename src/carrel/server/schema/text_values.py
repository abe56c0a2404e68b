"""Conversion of text to types: values of template variables and arguments of prompts."""

from __future__ import annotations

import enum
from collections import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import ValidationError

from carrel.protocol.json_values import DECODING_ERRORS, read_foreign
from carrel.server.schema.parameter import UNIONS
from carrel.server.schema.type_hints import (
    Metadata,
    has_fields,
    is_array,
    is_foreign,
    is_pydantic,
    plain_type,
    walk,
)

__all__ = ["reader_of", "text_of"]


def text_of(value: Any) -> str:
    """Return a value of a Literal or Enum as the text of a template variable."""
    if isinstance(value, enum.Enum):
        return text_of(value.value) if isinstance(value.value, (str, int, float)) else value.name
    if isinstance(value, bool) or value is None:
        return msgspec.json.encode(value).decode()
    return str(value)


def reader_of(annotation: Any, *, plain: bool = False) -> Callable[[Any], Any] | None:
    """Return the function that converts text (or lists or dictionaries of it) to a type; None to leave text as it is.

    It raises ``msgspec.ValidationError`` for text that does not parse. With ``plain``, arrays and objects stay as
    JSON has them and constraints unchecked, because another step validates them.
    """
    read = read_kind(plain_type(annotation), plain)
    constrained = any(isinstance(node, Metadata) and isinstance(node.value, msgspec.Meta) for node in walk(annotation))
    if plain or not constrained:
        return read
    return lambda value: msgspec.convert(read(value) if read else value, annotation, dec_hook=read_foreign)


def read_kind(kind: Any, plain: bool) -> Callable[[Any], Any] | None:
    origin = get_origin(kind)
    if kind in SCALARS:
        return partial(read_scalar, kind)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return read_choice(kind)
    if origin in UNIONS:
        return read_union(kind, plain)
    if kind is str or kind is Any or kind is object or isinstance(kind, TypeVar):
        return None
    if has_fields(kind) or has_fields(origin) or is_pydantic(kind):
        return partial(read_object, kind, plain)
    if is_array(origin or kind):
        return read_array(kind, plain)
    if isinstance(origin or kind, type) and issubclass(origin or kind, abc.Mapping):
        return read_mapping(kind, plain)
    if f"{kind.__module__}.{kind.__qualname__}" == "decimal.Decimal":
        return partial(read_scalar, kind)
    if is_foreign(kind):
        return partial(read_object, kind, plain)
    return partial(msgspec.convert, type=kind, dec_hook=read_foreign)


def read_integer(text: str) -> int:
    """Parse decimal digits, perhaps after a minus; int() alone takes spaces, underscores and digits of all scripts."""
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text)
    return int(text)


def read_number(kind: type, text: str) -> Any:
    """Parse a finite decimal number."""
    if not text or text[0] == "+" or text.strip("0123456789.eE+-"):
        raise ValueError(text)
    number = kind(text)
    if number - number != 0:  # 1e999 is infinite
        raise ValueError(text)
    return number


def read_boolean(text: str) -> bool:
    """Parse true and false (case-insensitive), 1 and 0."""
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


SCALARS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("int", read_integer),
    float: ("float", partial(read_number, float)),
    bool: ("bool", read_boolean),
}


def read_scalar(kind: Any, value: Any) -> Any:
    name, read = SCALARS.get(kind) or ("decimal", partial(read_number, kind))
    if not isinstance(value, str):
        raise ValidationError(f"Expected `{name}`, got `{'array' if isinstance(value, list) else 'object'}`")
    try:
        return read(value)
    except (ValueError, ArithmeticError, LookupError):
        raise ValidationError(f"Expected `{name}`") from None


def read_choice(kind: Any) -> Callable[[Any], Any]:
    """Return the function that parses a value of an Enum (by value or name) or a Literal."""
    known = {} if get_origin(kind) is Literal else dict(kind.__members__)
    known |= {text_of(value): value for value in (get_args(kind) or kind)}

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in known:
            raise ValidationError(f"Invalid enum value {str(value)[:80]!r}")
        return known[value]

    return read


def read_union(kind: Any, plain: bool) -> Callable[[Any], Any]:
    """Return the function that tries one type after the other; text is tried last, because it takes everything."""
    readers = [reader_of(item, plain=plain) for item in get_args(kind)]

    def read(value: Any) -> Any:
        problem = ValidationError("Invalid value")
        for reader in readers:
            try:
                if reader is not None:
                    return reader(value)
            except DECODING_ERRORS as error:
                problem = ValidationError(str(error))
        if None in readers:
            return value
        raise problem

    return read


def read_array(kind: Any, plain: bool) -> Callable[[Any], Any]:
    arguments = get_args(kind)
    readers = [reader_of(item, plain=True) for item in arguments if item is not ...]
    by_position = get_origin(kind) is tuple and ... not in arguments
    if not by_position:
        readers = readers[:1]

    def read(value: Any) -> Any:
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            return read_json(value, kind, plain)
        if isinstance(value, Mapping):
            raise ValidationError("Expected `array`, got `object`")
        items = [value] if isinstance(value, str) else list(value)
        for index, item in enumerate(items):
            position = index if by_position else 0
            reader = readers[position] if position < len(readers) else None
            if reader is not None:
                items[index] = reader(item)
        return items if plain else msgspec.convert(items, kind, dec_hook=read_foreign)

    return read


def read_mapping(kind: Any, plain: bool) -> Callable[[Any], Any]:
    arguments = get_args(kind)
    reader = reader_of(arguments[1], plain=True) if arguments else None

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return read_json(value, kind, plain)
        if isinstance(value, Mapping) and reader is not None:
            value = {name: reader(item) for name, item in value.items()}
        return value if plain else msgspec.convert(value, kind, str_keys=True, dec_hook=read_foreign)

    return read


def read_object(kind: Any, plain: bool, value: Any) -> Any:
    if not plain:
        if isinstance(value, str):
            return read_json(value, kind, plain)
        return msgspec.convert(value, kind, strict=False, dec_hook=read_foreign)
    try:
        return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except DECODING_ERRORS:  # no JSON, and then it may be text to pydantic
        return value


def read_json(text: str, kind: Any, plain: bool) -> Any:
    return msgspec.json.decode(text, type=Any if plain else kind, dec_hook=read_foreign)
