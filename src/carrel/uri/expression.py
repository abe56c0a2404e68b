"""URI template expressions: variables, operators, limits and expansion (RFC 6570, section 3).

`carrel.uri.template` parses them, `carrel.uri.matching` matches them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from carrel.uri.parse import RESERVED, UNRESERVED, UriError, percent_encode

__all__ = [
    "BAD_ESCAPE",
    "MAX_ITEMS",
    "MAX_PAIRS",
    "MAX_TEMPLATE",
    "MAX_URI",
    "MAX_VARIABLES",
    "OPERATORS",
    "Atom",
    "Expression",
    "Found",
    "Operator",
    "Part",
    "Query",
    "UriTemplateError",
    "Value",
    "Variable",
    "expand",
]

MAX_TEMPLATE = 8_192
"""Maximum number of characters in a template."""
MAX_VARIABLES = 256
"""Maximum number of variables in a template."""
MAX_URI = 65_536
"""Maximum number of characters in a URI; a longer one does not match."""
MAX_ITEMS = 1_024
"""Maximum number of items in a list or mapping, and of query parameters; a URI with more does not match."""
MAX_PAIRS = 128
"""Maximum number of pairs in an exploded mapping of an ambiguous template; a URI with more does not match."""

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | Sequence[str] | Mapping[str, str] | None
Found: TypeAlias = str | list[str] | dict[str, str]


class UriTemplateError(ValueError):
    """The text is not a URI template (the message says what and at which character), or a value cannot be expanded."""


class Variable(NamedTuple):
    """A variable in an expression of a template (RFC 6570, sections 2.3 and 2.4)."""

    name: str
    explode: bool = False
    prefix: int | None = None
    """Prefix modifier: the maximum number of characters of the value in the expansion."""
    operator: str = ""
    """One of `+ # . / ; ? &`, or empty."""


class Operator(NamedTuple):
    """An operator of expressions: a column of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool = False
    empty: str = ""
    reserved: bool = False


OPERATORS = {
    "": Operator("", ","),
    "+": Operator("", ",", reserved=True),
    "#": Operator("#", ",", reserved=True),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True),
    "?": Operator("?", "&", named=True, empty="="),
    "&": Operator("&", "&", named=True, empty="="),
}


class Query(NamedTuple):
    """Adjoining `{?...}` and `{&...}` up to the end or the fragment: their parameters come in any order."""

    variables: tuple[Variable, ...]
    indexes: Mapping[str, int]
    """Index in `variables` by name, as tokens."""
    exploded: Sequence[int]


Expression: TypeAlias = tuple[Variable, ...]
Part: TypeAlias = str | Expression
Atom: TypeAlias = str | Expression | Query

BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def expand(expression: Expression, values: Mapping[str, Value]) -> str:
    """Expand an expression with these values; return "" if no variable has a value.

    Raises:
        UriTemplateError: a list or mapping for a variable with a prefix, or text with a lone surrogate.
        TypeError: a value of another type.
    """
    operator = OPERATORS[expression[0].operator]
    pieces: list[str] = []
    for variable in expression:
        value = values.get(variable.name)
        if value is not None:
            pieces += _pieces(variable, operator, value)
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _pieces(variable: Variable, operator: Operator, value: Value) -> list[str]:
    def name(key: str, text: str) -> str:
        return key + "=" + text if text else key + operator.empty

    if isinstance(value, str | int | float):
        text = _encode(_text(value)[: variable.prefix], operator)
        return [name(variable.name, text) if operator.named else text]
    if not isinstance(value, Mapping | Sequence) or isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{variable.name}: {type(value).__name__} is not text, a number, a list or a mapping")
    if variable.prefix is not None:
        raise UriTemplateError(f"{variable.name}: only text has a prefix, not a list or a mapping")
    if isinstance(value, Mapping):
        pairs = [(_encode(_text(key), operator), _encode(_text(item), operator)) for key, item in value.items()]
        if variable.explode:
            return [name(key, text) if operator.named else f"{key}={text}" for key, text in pairs]
        items = [text for pair in pairs for text in pair]
    else:
        items = [_encode(_text(item), operator) for item in value]
        if variable.explode:
            return [name(variable.name, text) if operator.named else text for text in items]
    joined = ",".join(items)
    if not items:
        return []
    return [name(variable.name, joined) if operator.named else joined]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{type(value).__name__} is neither text nor a number")


def _encode(text: str, operator: Operator) -> str:
    try:
        if not operator.reserved:
            return percent_encode(text)
        # Existing escapes stay (section 3.2.3).
        first, *rest = text.split("%")
        safe = UNRESERVED + RESERVED
        escapes = ["%25" + part if BAD_ESCAPE.match("%" + part[:2]) else "%" + part for part in rest]
        return percent_encode(first, safe) + "".join([percent_encode(part, safe + "%") for part in escapes])
    except UriError as error:
        raise UriTemplateError(str(error)) from None
