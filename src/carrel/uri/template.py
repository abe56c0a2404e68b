"""URI templates (RFC 6570, all four levels): parsing, expansion, and matching, which the RFC does not define.

docs/uri-templates.md documents the matches of each expression, and the preferred reading if several exist. In short:
`UriTemplate.match` reads back every URI that `UriTemplate.expand` writes; characters that expansion would have escaped
are accepted too; and a value ends at the first place where the rest can still match.

A template that is only listed needs no matching: `carrel.uri.matching` is imported at the first match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from carrel.uri.expression import (
    BAD_ESCAPE,
    MAX_TEMPLATE,
    MAX_URI,
    MAX_VARIABLES,
    OPERATORS,
    Expression,
    Found,
    Part,
    UriTemplateError,
    Value,
    Variable,
    expand,
)
from carrel.uri.parse import DIGIT, RESERVED, UNRESERVED, UriError, percent_decode, percent_encode
from carrel.uri.tokens import is_encodable, tokenize

if TYPE_CHECKING:
    from carrel.uri.matching import Matching

__all__ = ["MAX_URI", "UriTemplate", "UriTemplateError", "Value", "Variable", "shared_template"]


class UriTemplate:
    """A parsed URI template (RFC 6570).

    Raises:
        UriTemplateError: the template is malformed, or has more than 8,192 characters or 256 variables.
    """

    __slots__ = (
        "_matching",
        "_parts",
        "literal_length",
        "names",
        "prefix",
        "required",
        "template",
        "variables",
    )

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts = _parse(template)
        expressions = [part for part in self._parts if not isinstance(part, str)]
        self.variables: tuple[Variable, ...] = tuple([variable for part in expressions for variable in part])
        """All variables in order; a name may occur more than once."""
        self.names: tuple[str, ...] = tuple(dict.fromkeys([variable.name for variable in self.variables]))
        """The names of the variables in order, without duplicates."""
        self.required: frozenset[str] = _required(expressions)
        """The names that every match has. Others are absent from a match if they are absent from the URI."""
        first = self._parts[0] if self._parts else ""
        self.prefix: str = first if isinstance(first, str) else ""
        """The literal text before the first expression, percent-encoded."""
        self.literal_length: int = sum([len(part) for part in self._parts if isinstance(part, str)])
        """The number of literal characters, percent-encoded, which decides between overlapping templates."""
        self._matching: Matching | None = None

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def __eq__(self, other: object) -> bool:
        return self.template == other.template if isinstance(other, UriTemplate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.template)

    @property
    def ambiguous(self) -> bool:
        """Whether the expansion of some strings can be matched to other values of the variables."""
        from carrel.uri.graph import Graph
        from carrel.uri.matching import group

        return Graph(group(self._parts), "text").ambiguous

    def expand(self, values: Mapping[str, Value]) -> str:
        """Expand the template; a variable that is missing or `None` is omitted (RFC 6570, section 3).

        Numbers are formatted as in Python, booleans as `true` and `false`.

        Raises:
            UriTemplateError: a list or mapping for a variable with a prefix, or text with a lone surrogate.
            TypeError: a value of another type.
        """
        return "".join([part if isinstance(part, str) else expand(part, values) for part in self._parts])

    def location(self, values: Mapping[str, Value]) -> str:
        """Expand the template without its query and fragment; a missing variable becomes `-`.

        Raises:
            UriTemplateError, TypeError: as for `expand`.
        """
        unnamed = {variable.name: "-" for variable in self.variables if variable.name not in values}
        known = {**values, **unnamed}
        parts = [part for part in self._parts if isinstance(part, str) or part[0].operator not in ("?", "&", "#")]
        return "".join([part if isinstance(part, str) else expand(part, known) for part in parts])

    def head(self, values: Mapping[str, Value]) -> str:
        """Expand the template as ``location`` does, up to its first variable without a value.

        Raises:
            UriTemplateError, TypeError: as for `expand`.
        """
        head = ""
        for part in self._parts:
            if isinstance(part, str):
                head += part
            elif part[0].operator not in ("?", "&", "#"):
                if any(variable.name not in values for variable in part):
                    break
                head += expand(part, values)
        return head

    def match(self, uri: str) -> dict[str, Found] | None:
        """Match a URI; return the decoded values of the variables, or `None` if it does not match.

        Variables that are absent from the URI are not in the result. The time is linear in the length of the URI.
        """
        matching = self._matching
        if matching is None:
            if self._begins_otherwise(uri):
                return None
            matching = self.prepare()
        plain, fullmatch = matching.plain, matching.fullmatch
        if plain is not None:  # the hot path
            found = plain(uri)
            if found is not None:
                return found.groupdict() if len(uri) <= MAX_URI else None
            if "%" not in uri and "," not in uri and uri.isascii():
                return None
        if fullmatch is None:
            return matching.divide(uri)
        if len(uri) > MAX_URI:
            return None
        found = fullmatch(uri)
        if found is None:
            return None
        if not uri.isascii() and not is_encodable(uri):
            return None
        return matching.interpret(found.groups(), percent_decode)

    def _begins_otherwise(self, uri: str) -> bool:
        """Return whether a URI cannot match, as it begins with other characters than the template in any spelling."""
        prefix = self.prefix
        return not uri.startswith(prefix) and uri.isascii() and "%" not in prefix and "%" not in uri[: len(prefix)]

    def prepare(self) -> Matching:
        """Create the matcher, which takes milliseconds. Otherwise it is created for the first URI that may match."""
        from carrel.uri.matching import Matching

        self._matching = matching = Matching(self._parts)
        return matching


@lru_cache(maxsize=4096)
def shared_template(template: str) -> UriTemplate:
    """Return the template of a text, the same object each time, so that its matcher is created once.

    Raises:
        UriTemplateError: the text is no template.
    """
    return UriTemplate(template)


# Parsing


_NOT_LITERAL = frozenset(map(chr, range(0x21))) | frozenset('"<>\\^`{|}\x7f')
_BAD_NAME = re.compile(r"[^A-Za-z0-9_.%]|^\.|\.(?=\.|\Z)|%(?![0-9A-Fa-f]{2})|^\Z")


def _parse(template: str) -> tuple[Part, ...]:
    """Split a template into literal texts, percent-encoded, and expressions (RFC 6570, section 2)."""
    if len(template) > MAX_TEMPLATE:
        raise UriTemplateError(f"a URI template has at most {MAX_TEMPLATE} characters, this one has {len(template)}")
    parts: list[Part] = []
    position = count = 0
    while position < len(template):
        start = template.find("{", position)
        literal = template[position:] if start < 0 else template[position:start]
        if literal:
            parts.append(_parse_literal(literal, position, template))
        if start < 0:
            break
        end = template.find("}", start)
        if end < 0:
            raise _error("an expression is not closed", start, template)
        expression = _parse_expression(template[start + 1 : end], start + 1, template)
        count += len(expression)
        if count > MAX_VARIABLES:
            raise _error(f"a URI template has at most {MAX_VARIABLES} variables", start, template)
        parts.append(expression)
        position = end + 1
    literals = [part for part in parts if isinstance(part, str)]
    if tokenize("".join(literals)) != "".join(map(tokenize, literals)):
        raise UriTemplateError(f"an expression divides the escapes of one character: {template!r}")
    return tuple(parts)


def _parse_literal(literal: str, position: int, template: str) -> str:
    if not _NOT_LITERAL.isdisjoint(literal):
        found = min(literal.index(character) for character in _NOT_LITERAL.intersection(literal))
        raise _error(f"{literal[found]!r} is not allowed outside an expression", position + found, template)
    escape = BAD_ESCAPE.search(literal)
    if escape:
        raise _error("'%' is not followed by two hexadecimal digits", position + escape.start(), template)
    try:
        return percent_encode(literal, UNRESERVED + RESERVED + "%")
    except UriError as error:
        raise UriTemplateError(f"{error}, in the text from character {position + 1} of a URI template") from None


def _parse_expression(expression: str, position: int, template: str) -> Expression:
    operator = expression[:1] if expression[:1] in OPERATORS else ""
    if expression[:1] in ("=", ",", "!", "@", "|"):
        raise _error(f"the operator {expression[0]!r} is reserved", position, template)
    variables = []
    position += len(operator)
    for specification in expression[len(operator) :].split(","):
        name, colon, digits = specification.partition(":")
        explode = not colon and name.endswith("*")
        if explode:
            name = name[:-1]
        fault = _BAD_NAME.search(name)
        if fault:
            what = f"{fault[0]!r} is not allowed in" if fault[0] else "there has to be"
            raise _error(f"{what} the name of a variable", position + fault.start(), template)
        if colon and (not 1 <= len(digits) <= 4 or digits.strip(DIGIT) or digits[0] == "0"):
            raise _error("a prefix is a number from 1 to 9999", position + len(name) + 1, template)
        variables.append(Variable(name, explode, int(digits) if colon else None, operator))
        position += len(specification) + 1
    return tuple(variables)


def _error(what: str, position: int, template: str) -> UriTemplateError:
    shown = template if len(template) <= 80 else template[:77] + "..."
    return UriTemplateError(f"{what}, at character {position + 1} of the URI template {shown!r}")


def _required(expressions: Iterable[Expression]) -> frozenset[str]:
    """Return the variables that cannot be absent: without a first character, an absent one is read as empty."""
    certain: list[str] = []
    others: list[str] = []
    for first, *rest in expressions:
        unlimited = first.prefix is None and not any(variable.explode for variable in (first, *rest))
        (certain if first.operator in ("", "+") and (unlimited or not rest) else others).append(first.name)
        others += [variable.name for variable in rest]
    # A name with another occurrence that may be absent can be absent in both.
    return frozenset(certain).difference(others)
