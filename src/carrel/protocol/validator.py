"""Values checked against a JSON Schema that somebody wrote: 2020-12, 2019-09 or draft-07.

https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.protocol.json_values import InvalidArguments, join_path, to_jsonable

__all__ = ["Validator"]

MAX_DEPTH = 100  # of a schema: objects and arrays within each other
MAX_SIZE = 50_000  # of a schema: values of all kinds
MAX_WEIGHT = 10_000  # of a schema: subschemas that one value may have to be compared with
MAX_INSTANCE_DEPTH = 200  # the validator recurses on the native stack, which has an end
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
    """Checks values against a JSON Schema that somebody wrote: 2020-12, or what ``$schema`` says.

    No reference is ever fetched, neither from the network nor from files. Schemas that refer to either, that are of
    an unknown dialect or out of bounds are refused at once. That a schema is valid in its dialect is found out by
    ``check``, or else at the first use, because loading the validator takes several milliseconds.

    ``subject`` is what the messages call a value: argument or result.

    Raises:
        ConfigError: the schema is refused; the message says why.
    """

    __slots__ = ("_validator", "schema", "subject")

    def __init__(self, schema: Mapping[str, Any], subject: str = "argument") -> None:
        if not isinstance(schema, Mapping):
            raise ConfigError(f"A JSON Schema is an object here, and not a {type(schema).__qualname__}")
        try:
            self.schema: dict[str, Any] = to_jsonable(dict(schema))
            inspect_schema(self.schema)
            weigh(self.schema, self.schema, {})
        except RecursionError:
            raise ConfigError("A JSON Schema is nested too deeply") from None
        except TypeError as error:
            raise ConfigError(f"A JSON Schema must be JSON: {error}") from None
        except ValueError as error:  # urljoin() over an address with half a bracket
            raise ConfigError(f"A reference in the JSON Schema is not a URI: {error}") from None
        self.subject = subject
        self._validator: Any = None

    def check(self) -> None:
        """Find out whether the schema is valid.

        Raises:
            ConfigError: it is not.
        """
        import jsonschema_rs  # 8 ms, which most servers never need

        if self._validator is None:
            dialect = DIALECTS[self.schema.get("$schema", next(iter(DIALECTS))).rstrip("#")]
            try:
                self._validator = getattr(jsonschema_rs, dialect)(self.schema, retriever=refuse_to_fetch)
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
                path = join_path(getattr(error, "instance_path", ()))
                message = printable(getattr(error, "message", str(error)))
                raise ConfigError(f"The JSON Schema is invalid{' at ' + path if path else ''}: {message}") from None

    def validate(self, instance: Any) -> None:
        """Check a JSON value: dictionaries, lists, text, numbers, booleans and None.

        Raises:
            InvalidArguments: it does not fit.
            ConfigError: the schema is invalid.
        """
        if self._validator is None:
            self.check()
        if depth_over(instance, MAX_INSTANCE_DEPTH):
            raise InvalidArguments(f"The {self.subject} is nested deeper than {MAX_INSTANCE_DEPTH} levels")
        try:
            self._validator.validate(instance)
        except ValueError as error:
            raise self._explain(error) from None

    def _explain(self, error: Any) -> InvalidArguments:
        location: list[str | int] = list(getattr(error, "instance_path", ()))
        kind: Any = getattr(error, "kind", None)
        told = printable(getattr(error, "message", str(error)))
        match getattr(kind, "name", None):
            case "required":
                location.append(kind.property)
                told = "is required, but missing"
            case "additionalProperties" | "unevaluatedProperties":
                location.append(kind.unexpected[0])
                told = "is unknown"
            case "anyOf" | "oneOf" if hasattr(kind, "context"):
                reasons = (printable(branch[0].message) for branch in kind.context[:3] if branch)
                told = f"{told} ({'; '.join(reasons)})"
        path = join_path(location)
        subject = f"{self.subject.capitalize()} `{path}`" if path else f"The {self.subject}"
        return InvalidArguments(f"{subject}{' ' if told.startswith('is ') else ': '}{told}", top_of(location), path)


def top_of(location: Sequence[str | int]) -> str | None:
    return str(location[0]) if location else None


def refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def depth_over(value: Any, limit: int) -> bool:
    """Say whether arrays and objects are nested deeper than the limit, without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list, tuple))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, (dict, list, tuple)) for node in level)


def inspect_schema(schema: dict[str, Any]) -> None:
    """Refuse what is too large, of an unknown dialect, or refers to something outside."""
    from urllib.parse import urljoin  # nobody else at the start needs it

    size = 0
    anchors = {""}
    references: list[str] = []
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
            raise ConfigError(f"The JSON Schema refers to {reference[:200]}, and nothing outside of it is ever fetched")


def weigh(node: Any, root: dict[str, Any], weights: dict[int, int]) -> int:
    """Count the subschemas that one value is compared with at worst, which references can make exponential.

    Raises:
        ConfigError: there are too many, or there is no end to them.
    """
    if not isinstance(node, dict):
        return 1
    if id(node) in weights:
        if weights[id(node)] == 0:
            raise ConfigError("The JSON Schema refers to itself without end")
        return weights[id(node)]
    weights[id(node)] = 0
    total = 1
    for key in ("allOf", "anyOf", "oneOf"):
        items = node.get(key)
        total += sum(weigh(item, root, weights) for item in items) if isinstance(items, list) else 0
    for key in ("not", "if", "then", "else"):
        total += weigh(node[key], root, weights) if key in node else 0
    for key in ("dependentSchemas", "dependencies"):
        items = node.get(key)
        total += sum(weigh(item, root, weights) for item in items.values()) if isinstance(items, dict) else 0
    if isinstance(node.get("$ref"), str):
        total += weigh(find(node["$ref"], root), root, weights)
    if total > MAX_WEIGHT:
        raise ConfigError(f"The JSON Schema compares one value with more than {MAX_WEIGHT} subschemas")
    weights[id(node)] = total
    return total


def find(reference: str, root: dict[str, Any]) -> Any:
    """Follow a JSON pointer within the schema. The validator sees to other references."""
    if reference.partition("#")[0] or (reference != "#" and not reference.startswith("#/")):
        return None
    node: Any = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdigit():
            node = node[int(name)] if int(name) < len(node) else None
        else:
            return None
    return node
