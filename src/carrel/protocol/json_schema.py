"""JSON Schema validation with bounded work: dialects 2020-12, 2019-09 and draft-07.

https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Raw

from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.protocol.json_values import InvalidArguments, join_path, to_jsonable
from carrel.protocol.schema_weight import Index, Weigher

__all__ = ["Validator"]

MAX_DEPTH = 100  # nesting of objects and arrays in a schema
MAX_SIZE = 50_000  # values of all kinds in a schema
MAX_INSTANCE_DEPTH = 200  # the validator recurses on the native stack
MAX_WORK = 200_000_000  # worst-case comparisons of values with subschemas: some seconds
MAX_EXPLAINED = 5_000  # comparisons where all errors are collected
MAX_PATTERN_WORK = 1_000_000_000  # characters times pattern states: some seconds in the worst case
MAX_STEPS = 20_000  # backtracking steps of a pattern, for one string
DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
DATA = ("enum", "const", "default", "examples", "required", "dependentRequired")


class Validator:
    """Validator of values against a JSON Schema: 2020-12, or the dialect that ``$schema`` names.

    References are never fetched, neither from the network nor from files. Schemas with external references, an unknown
    dialect or a size beyond the limits are rejected at once. Validity in the dialect is checked by ``check``, or else
    at the first use, because loading the validator takes several milliseconds.

    Patterns are matched in linear time; patterns with look-around or back-references are rejected. A schema with
    patterns is checked at once.

    ``subject`` is the name of a value in messages: argument or result. ``foreign`` is for schemas of a peer: their
    patterns may use look-around and back-references, with bounded backtracking and a bounded length of text.

    Raises:
        ConfigError: the schema is rejected; the message gives the reason.
    """

    __slots__ = (
        *("_backtracks", "_choices", "_foreign", "_index", "_states", "_validator", "_weight"),
        *("schema", "subject"),
    )

    def __init__(self, schema: Mapping[str, Any], subject: str = "argument", *, foreign: bool = False) -> None:
        if not isinstance(schema, Mapping):
            raise ConfigError(f"A JSON Schema is an object here, and not a {type(schema).__qualname__}")
        self.subject = subject
        self._validator: Any = None
        try:
            self.schema: dict[str, Any] = to_jsonable(dict(schema))
            found = inspect_schema(self.schema)
            self._index, self._choices = found.index, found.choices
            self._weight = Weigher(self._index).weigh(self.schema)
        except RecursionError:
            raise ConfigError("A JSON Schema is nested too deeply") from None
        except TypeError as error:
            raise ConfigError(f"A JSON Schema must be JSON: {error}") from None
        except ValueError as error:  # urljoin() of an address with an unbalanced bracket
            raise ConfigError(f"A reference in the JSON Schema is not a URI: {error}") from None
        self._foreign = foreign
        self._backtracks = False
        self._states = sum(map(states, found.patterns)) if foreign else 0
        if found.patterns and not foreign:
            self.check()

    def check(self) -> None:
        """Check that the schema is valid in its dialect.

        Raises:
            ConfigError: the schema is invalid.
        """
        import jsonschema_rs  # takes 8 ms, and most servers never need it

        if self._validator is not None:
            return
        dialect = getattr(jsonschema_rs, DIALECTS[self.schema.get("$schema", next(iter(DIALECTS))).rstrip("#")])
        linear, bounded = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_STEPS)
        try:
            self._validator = dialect(self.schema, retriever=refuse_to_fetch, pattern_options=linear)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            path = join_path(getattr(error, "instance_path", ()))
            message = printable(getattr(error, "message", str(error)))
            if getattr(getattr(error, "kind", None), "name", "") == "format" and "regex" in message:
                message += "; patterns must take linear time, without look-around and back-references"
                if self._foreign:
                    try:
                        self._validator = dialect(self.schema, retriever=refuse_to_fetch, pattern_options=bounded)
                        self._backtracks = True
                        return
                    except (jsonschema_rs.ValidationError, ValueError):
                        pass
            raise ConfigError(f"The JSON Schema is invalid{' at ' + path if path else ''}: {message}") from None

    def validate(self, instance: Any, text: bytes | Raw | None = None) -> None:
        """Validate a JSON value: dictionaries, lists, strings, numbers, booleans and None.

        ``text`` is the value as JSON, if available: the size of a value is cheaper to estimate from it.

        Raises:
            InvalidArguments: the value is invalid, or too large to be validated.
            ConfigError: the schema is invalid.
        """
        if self._validator is None:
            self.check()
        count = None if text is None else size_in(text)
        if count is None:
            count = size_of(instance, MAX_INSTANCE_DEPTH)
        if count is None:
            raise InvalidArguments(f"The {self.subject} is nested deeper than {MAX_INSTANCE_DEPTH} levels")
        if (
            count * self._weight > MAX_WORK
            or (self._states and self._states * letters(instance) > MAX_PATTERN_WORK)
            or (self._backtracks and count * MAX_STEPS > MAX_PATTERN_WORK)
        ):
            raise InvalidArguments(f"The {self.subject} is too large to be checked against its JSON Schema")
        try:
            if self._validator.is_valid(instance):
                return
            if self._may_explain(instance, count):
                self._validator.validate(instance)
        except ValueError as error:
            raise self._explain(error) from None
        raise InvalidArguments(f"The {self.subject} does not fit its JSON Schema; it is too large to say where")

    def _may_explain(self, instance: Any, count: int) -> bool:
        """Return whether collecting the errors in a value is affordable: alternatives multiply them at every level."""
        most = MAX_EXPLAINED if self._choices else MAX_WORK
        if count > most:
            return False
        levels = next(depth for depth in range(1, MAX_INSTANCE_DEPTH + 2) if size_of(instance, depth) is not None)
        try:
            return count * Weigher(self._index, levels).weigh(self.schema) <= most
        except (ConfigError, RecursionError):
            return False

    def _explain(self, error: Any) -> InvalidArguments:
        location: list[str | int] = list(getattr(error, "instance_path", ()))
        kind: Any = getattr(error, "kind", None)
        problem = printable(getattr(error, "message", str(error)))
        match getattr(kind, "name", None):
            case "required":
                location.append(kind.property)
                problem = "is required, but missing"
            case "additionalProperties" | "unevaluatedProperties":
                location.append(kind.unexpected[0])
                problem = "is unknown"
            case "anyOf" | "oneOf" if hasattr(kind, "context"):
                reasons = (printable(branch[0].message) for branch in kind.context[:3] if branch)
                problem = f"{problem} ({'; '.join(reasons)})"
        path = join_path(location)
        subject = f"{self.subject.capitalize()} `{path}`" if path else f"The {self.subject}"
        return InvalidArguments(
            f"{subject}{' ' if problem.startswith('is ') else ': '}{problem}", top_of(location), path
        )


def top_of(location: Sequence[str | int]) -> str | None:
    return str(location[0]) if location else None


def refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def size_of(value: Any, limit: int) -> int | None:
    """Return the number of values in a value, without recursion; None if they are nested deeper than the limit."""
    level, size = [value], 1
    for _ in range(limit):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list, tuple))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        size += len(level)
        if not level:
            return size
    return None if any(isinstance(node, (dict, list, tuple)) for node in level) else size


def size_in(text: bytes | Raw) -> int | None:
    """Return an upper bound of the number of values in a JSON text; None if it may be nested too deeply."""
    data = bytes(text)
    inner = data.count(b"[") + data.count(b"{")
    return inner + data.count(b",") + 1 if inner <= MAX_INSTANCE_DEPTH else None


def letters(value: Any) -> int:
    """Return the number of characters in all strings of a value."""
    size, nodes = 0, [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, str):
            size += len(node)
        elif isinstance(node, dict):
            nodes += node
            nodes += node.values()
        elif isinstance(node, (list, tuple)):
            nodes += node
    return size


def states(pattern: str) -> int:
    """Estimate the number of states of a pattern, all of which may have to be visited per character."""
    counts = [int(count) for count in re.findall(r"(\d{1,9})\}", pattern)]
    return len(pattern) * (prod(counts) if "){" in pattern else 1) + sum(counts)


class SchemaFindings:
    """Findings of a schema inspection: index of references, patterns, and whether there are alternatives."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.index = Index(schema)
        self.patterns: list[str] = []
        self.choices = False

    def add(self, node: dict[str, Any], base: str) -> None:
        """Record a subschema."""
        self.index.add(node, base)
        self.choices = self.choices or "anyOf" in node or "oneOf" in node
        if isinstance(node.get("pattern"), str):
            self.patterns.append(node["pattern"])
        if isinstance(node.get("patternProperties"), dict):
            self.patterns += node["patternProperties"]


def inspect_schema(schema: dict[str, Any]) -> SchemaFindings:
    """Inspect a schema; raise ConfigError if it is too large, of an unknown dialect, or has external references."""
    from urllib.parse import urljoin  # not needed at startup otherwise

    size = 0
    anchors = {""}
    references: list[str] = []
    found = SchemaFindings(schema)
    nodes: list[tuple[Any, int, str, str]] = [(schema, 1, "", "schema")]
    while nodes:
        node, depth, uri, kind = nodes.pop()
        size += 1
        if depth > MAX_DEPTH or size > MAX_SIZE:
            problem = f"nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"over {MAX_SIZE} values"
            raise ConfigError(f"The JSON Schema is {problem}")
        if isinstance(node, list):
            nodes += [(item, depth + 1, uri, kind) for item in node]
        if not isinstance(node, dict):
            continue
        if kind == "schema":
            if isinstance(node.get("$id"), str):
                uri = urljoin(uri, node["$id"])
                anchors.add(uri.partition("#")[0])
            found.add(node, uri)
            if "$schema" in node and str(node["$schema"]).rstrip("#") not in DIALECTS:
                raise ConfigError(
                    f"JSON Schema dialect {str(node['$schema'])[:200]} is not supported; use 2020-12 or draft-07"
                )
            references += [urljoin(uri, node[key]) for key in REFERENCES if isinstance(node.get(key), str)]
        for key, item in node.items():
            inside = "names" if key in NAMES else "data" if key in DATA else "schema"
            nodes.append((item, depth + 1, uri, inside if kind == "schema" else "schema" if kind == "names" else kind))
    for reference in references:
        document = reference.partition("#")[0]
        if document not in anchors and document not in DIALECTS:
            raise ConfigError(f"The JSON Schema refers to {reference[:200]}, and external references are never fetched")
    return found
