"""URI templates (RFC 6570), read and matched by Carrel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

from carrel.uri.parse import UriError
from carrel.uri.template import UriTemplate as Template
from carrel.uri.template import UriTemplateError

__all__ = [
    "DEFAULT_MAX_TEMPLATE_LENGTH",
    "DEFAULT_MAX_URI_LENGTH",
    "DEFAULT_MAX_VARIABLES",
    "InvalidUriTemplate",
    "Operator",
    "UriTemplate",
    "Variable",
]

Operator: TypeAlias = Literal["", "+", "#", ".", "/", ";", "?", "&"]

EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
#: What an operator has before its first variable, and between its variables.
LEADS = {"": ("", ","), "+": ("", ","), "#": "#,", ".": "..", "/": "//", ";": ";;", "?": "?&", "&": "&&"}

DEFAULT_MAX_TEMPLATE_LENGTH = 8_192
DEFAULT_MAX_VARIABLES = 256
DEFAULT_MAX_URI_LENGTH = 65_536


class InvalidUriTemplate(ValueError):
    """The template is malformed. ``position`` is where, if that is known."""

    def __init__(self, message: str, *, template: str, position: int | None = None) -> None:
        super().__init__(message)
        self.template = template
        self.position = position


@dataclass(frozen=True)
class Variable:
    """Variable of a template, with the operator of its expression."""

    name: str
    operator: Operator
    explode: bool = False


@dataclass(frozen=True)
class UriTemplate:
    """Template that expands values to a URI, and matches a URI to values."""

    template: str
    _parsed: Template = field(repr=False, compare=False)

    @staticmethod
    def is_template(value: str) -> bool:
        """Return whether a text has an expression in braces."""
        return re.search(r"\{[^}]+\}", value) is not None

    @classmethod
    def parse(
        cls,
        template: str,
        *,
        max_length: int = DEFAULT_MAX_TEMPLATE_LENGTH,
        max_variables: int = DEFAULT_MAX_VARIABLES,
    ) -> UriTemplate:
        """Return the template of a text.

        Raises:
            InvalidUriTemplate: it is malformed, or exceeds a limit.
        """
        if len(template) > max_length:
            raise InvalidUriTemplate(f"Template exceeds maximum length of {max_length}", template=template)
        try:
            found = Template(template)
        except UriTemplateError as error:
            raise InvalidUriTemplate(str(error), template=template) from None
        if len(found.variables) > max_variables:
            raise InvalidUriTemplate(f"Template exceeds maximum of {max_variables} variables", template=template)
        names = [variable.name for variable in found.variables]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidUriTemplate(f"Variable {twice!r} appears more than once", template=template)
        for variable in found.variables:
            if variable.explode and variable.operator in ("?", "&", "", "+", "#"):
                message = f"Explode modifier is not supported for {{{variable.operator}{variable.name}*}}"
                raise InvalidUriTemplate(message, template=template)
            if variable.prefix is not None:
                raise InvalidUriTemplate(f"Prefix modifier of {variable.name!r} is not supported", template=template)
        _check_unambiguous(template)
        return cls(template, found)

    @cached_property
    def variables(self) -> list[Variable]:
        """The variables in order."""
        return [
            Variable(each.name, cast("Operator", each.operator), bool(each.explode)) for each in self._parsed.variables
        ]

    @property
    def variable_names(self) -> list[str]:
        """The names of the variables in order."""
        return [variable.name for variable in self.variables]

    @property
    def query_variable_names(self) -> frozenset[str]:
        """The names of the variables that a URI may leave out: they are in its query."""
        return frozenset(each.name for each in self.variables if each.operator in ("?", "&"))

    def expand(self, variables: Mapping[str, str | Sequence[str]]) -> str:
        """Return the URI for some values.

        Raises:
            TypeError: a value is neither a text nor a sequence of texts.
        """
        given: dict[str, Any] = {}
        for name in self.variable_names:
            if name not in variables:
                continue
            value = variables[name]
            if not isinstance(value, str):
                if not isinstance(value, Sequence) or isinstance(value, bytes):
                    raise TypeError(f"variable {name!r} must be str or a sequence of str, got {type(value).__name__}")
                if not all(isinstance(each, str) for each in value):
                    raise TypeError(f"variable {name!r} must be str or a sequence of str")
                value = list(value)
            given[name] = value
        return self._parsed.expand(given)

    def match(self, uri: str, *, max_uri_length: int = DEFAULT_MAX_URI_LENGTH) -> dict[str, str | list[str]] | None:
        """Return the values of a URI; None if it does not match, or is too long."""
        if len(uri) > max_uri_length:
            return None
        try:
            return cast("dict[str, str | list[str]] | None", self._parsed.match(self._known(uri)))
        except UriError:
            return None

    def _known(self, uri: str) -> str:
        """Return a URI without the parameters of its query that the template does not have."""
        names = self.query_variable_names
        head, mark, query = uri.partition("?")
        if not names or not mark:
            return uri
        query, hash, fragment = query.partition("#")
        kept = "&".join(each for each in query.split("&") if each.partition("=")[0] in names)
        return head + (mark + kept if kept else "") + hash + fragment

    def __str__(self) -> str:
        return self.template


def _check_unambiguous(template: str) -> None:
    """Check that a URI has the values of a template in one way only.

    Raises:
        InvalidUriTemplate: it may have them in several ways, or two queries.
    """
    before: str | None = None
    end, queries, segments = 0, 0, 0
    for expression in EXPRESSION.finditer(template):
        before = before if expression.start() == end else None
        end, operator = expression.end(), expression[1]
        queries += operator == "?"
        for index, spec in enumerate(expression[2].split(",")):
            name = spec.removesuffix("*")
            lead = LEADS[operator][min(index, 1)]
            if before is not None and (not lead or name != spec):
                message = f"Variables {before!r} and {name!r} are adjacent with no literal separator between them"
                raise InvalidUriTemplate(message, template=template)
            segments += operator in ("+", "#") or name != spec
            before = name
    if queries > 1:
        raise InvalidUriTemplate("Template contains more than one {?...} expression", template=template)
    if segments > 1:
        raise InvalidUriTemplate("Template contains more than one multi-segment variable", template=template)
