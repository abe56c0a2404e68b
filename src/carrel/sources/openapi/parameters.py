"""Parameters of operations: reading them from the text of a URI, and serializing them by style and explode.

https://spec.openapis.org/oas/v3.1.1.html#style-values
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from carrel.errors import InvalidParams
from carrel.uri.parse import UNRESERVED, UriError, percent_decode, percent_encode

__all__ = ["ApiParameter", "encode_path_value", "query_pairs", "read_value", "variable_of"]

ParameterLocation = Literal["path", "query", "header", "cookie"]

_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "|"}
TRUTH = {"true": True, "false": False}
#: Number of times that a value may be percent-encoded.
MAX_ENCODINGS = 32


class ApiParameter(msgspec.Struct, frozen=True):
    """Parameter of an operation. ``kind`` is the first type of its schema, ``items`` the type of an array's items."""

    name: str
    location: ParameterLocation
    required: bool
    schema: dict[str, Any]
    description: str = ""
    style: str = "form"
    explode: bool = True
    kind: str = "string"
    items: str = "string"
    choices: tuple[Any, ...] = ()
    json: bool = False
    reserved: bool = False

    @property
    def variable(self) -> str:
        """Expression for the parameter in a URI template: its name, with ``*`` where a list is repeated."""
        many = self.location == "query" and self.kind == "array" and self.explode and self.style == "form"
        return variable_of(self.name) + ("*" if many and not self.json else "")


def default_style(location: str) -> str:
    """Return the default style of parameters of a location."""
    return _STYLES.get(location, "form")


def variable_of(name: str) -> str:
    """Convert a name to a variable name of a URI template (RFC 6570, section 2.3)."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
    return percent_encode(name, safe)


def invalid_parameter(parameter: ApiParameter, reason: str) -> InvalidParams:
    return InvalidParams(f"Invalid params: {parameter.name}: {reason}", parameter=parameter.name)


def decoded(parameter: ApiParameter, text: str) -> str:
    try:
        return percent_decode(text)
    except UriError:
        raise invalid_parameter(parameter, "malformed percent escape, or not UTF-8") from None


def read_value(parameter: ApiParameter, texts: Iterable[str]) -> Any:
    """Return the value of a parameter from percent-encoded texts, one for each occurrence in the URI.

    Lists are separated by commas, or repeated; objects are ``name,value,…``, or JSON.

    Raises:
        InvalidParams: the value does not have the type in the description.
    """
    given = list(texts)
    kind = parameter.kind
    if parameter.style == "deepObject" and kind == "string" and given[0].count(",") % 2:
        kind = "object"  # or a scalar: the description has alternatives
    if parameter.json or (kind == "object" and decoded(parameter, given[0]).startswith("{")):
        try:
            return msgspec.json.decode(decoded(parameter, given[0]))
        except (msgspec.DecodeError, RecursionError):
            raise invalid_parameter(parameter, "it is not valid JSON") from None
    if parameter.kind == "array":
        parts = [part for text in given for part in text.split(",")] if given != [""] else []
        return [read_scalar(parameter, decoded(parameter, part), parameter.items) for part in parts]
    if len(given) > 1:
        raise invalid_parameter(parameter, "it is given more than once")
    if kind == "object":
        parts = [decoded(parameter, part) for part in given[0].split(",")]
        if len(parts) % 2:
            raise invalid_parameter(parameter, "an object is written name,value,name,value, or as JSON")
        return dict(zip(parts[::2], parts[1::2], strict=True))
    return read_scalar(parameter, decoded(parameter, given[0]), parameter.kind)


def read_scalar(parameter: ApiParameter, text: str, kind: str) -> Any:
    value: Any = text
    if kind == "integer":
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 40):
            raise invalid_parameter(parameter, f"{text[:50]!r} is not a whole number")
        value = int(text)
    elif kind == "number":
        try:
            value = msgspec.json.decode(text, type=float)
        except msgspec.MsgspecError:
            raise invalid_parameter(parameter, f"{text[:50]!r} is not a number") from None
        value = int(text) if text.removeprefix("-").isdigit() else value
    elif kind == "boolean":
        if text not in TRUTH:
            raise invalid_parameter(parameter, f"{text[:50]!r} is neither true nor false")
        value = TRUTH[text]
    if parameter.choices and value not in parameter.choices and text not in map(text_of, parameter.choices):
        shown = ", ".join(text_of(choice)[:50] for choice in parameter.choices[:20])
        raise invalid_parameter(parameter, f"{text[:50]!r} is not one of {shown}")
    return value


def text_of(value: Any) -> str:
    """Return a scalar as it is written in a URL."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else msgspec.json.encode(value).decode()


def encoded(value: Any) -> str:
    return percent_encode(text_of(value), UNRESERVED)


def encode_path_value(parameter: ApiParameter, value: Any) -> str:
    """Return a path parameter as part of a path, by its style.

    Raises:
        InvalidParams: the value is empty, or could lead out of the path: a dot segment, or a control character.
    """
    scalars = [text_of(one) for one in flat(value)]
    joined = ",".join(scalars)
    if not joined or _has_dot_segment(joined):
        raise invalid_parameter(parameter, "it is empty, or has a segment that is . or .., which could lead elsewhere")
    if any(character < " " or character == "\x7f" for character in joined):
        raise invalid_parameter(parameter, "it has a control character")
    name, explode = percent_encode(parameter.name, UNRESERVED), parameter.explode
    if isinstance(value, dict):
        pairs = [(encoded(key), encoded(one)) for key, one in value.items()]
        plain = [f"{key}={one}" for key, one in pairs] if explode else [part for pair in pairs for part in pair]
    else:
        plain = [encoded(one) for one in flat(value)]
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(plain)
    if parameter.style == "matrix":
        if explode and isinstance(value, list):
            return "".join(f";{name}={one}" for one in plain)
        return ";" + ";".join(plain) if explode and isinstance(value, dict) else f";{name}={','.join(plain)}"
    return ",".join(plain)


def _has_dot_segment(text: str) -> bool:
    """Return whether a value has a dot segment for an API that decodes it, even if the API decodes it several times."""
    for _ in range(MAX_ENCODINGS):
        if any(segment.split(";")[0] in (".", "..") for segment in text.replace("\\", "/").split("/")):
            return True
        decoded = unquote(text)
        if decoded == text:
            return False
        text = decoded
    return True


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return value if isinstance(value, list) else [value]


def query_pairs(parameter: ApiParameter, value: Any) -> list[tuple[str, str]]:
    """Return a query or form parameter as pairs of names and values, percent-encoded, by its style."""
    name = percent_encode(parameter.name, UNRESERVED + "[]")
    if parameter.json:
        return [(name, percent_encode(msgspec.json.encode(value).decode(), UNRESERVED))]
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return [(f"{name}[{percent_encode(str(key), UNRESERVED)}]", encoded(one)) for key, one in value.items()]
        if parameter.explode:
            return [(percent_encode(str(key), UNRESERVED), encoded(one)) for key, one in value.items()]
        return [(name, ",".join(encoded(part) for part in flat(value)))]
    if isinstance(value, list):
        if parameter.style == "deepObject":  # OpenAPI does not define this; most servers parse lists this way
            return [(f"{name}[]", encoded(one)) for one in value]
        if parameter.explode and parameter.style == "form":
            return [(name, encoded(one)) for one in value]
        return [(name, _SEPARATORS.get(parameter.style, ",").join(encoded(one) for one in value))]
    return [(name, encoded(value))]
