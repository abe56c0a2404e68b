"""Routes of an API: URI templates of its GET operations, and the operation of a URI, found segment by segment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from carrel.errors import InvalidParams
from carrel.sources.openapi.operations import ApiOperation
from carrel.sources.openapi.parameters import encode_path_value, query_pairs, read_value, variable_of
from carrel.uri.parse import percent_encode

__all__ = ["PathRoutes", "build_url", "read_query", "template_of"]

_VARIABLE = re.compile(r"\{([^{}]*)\}")
#: Characters of a path that stay as they are in a URI, besides unreserved ones.
_LITERAL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/"


class _Segment:
    """Segment of paths: the nodes after it, by literal text and by pattern."""

    __slots__ = ("literal", "operation", "patterns")

    def __init__(self) -> None:
        self.literal: dict[str, _Segment] = {}
        self.patterns: list[tuple[int, re.Pattern[str], tuple[str, ...], _Segment]] = []
        self.operation: ApiOperation | None = None


class PathRoutes:
    """Tree of the paths of operations. Literal segments take precedence over segments with variables."""

    def __init__(self) -> None:
        self._root = _Segment()

    def add(self, operation: ApiOperation) -> None:
        """Add an operation by its path."""
        node = self._root
        for segment in operation.path[1:].split("/"):
            names = tuple(_VARIABLE.findall(segment))
            if not names:
                key = unquote(segment)
                node = node.literal.setdefault(key, _Segment())
                continue
            parts = _VARIABLE.split(segment)[::2]
            pattern = "([^/]+?)".join(re.escape(percent_encode(part, _LITERAL)) for part in parts)
            known = next((one for one in node.patterns if one[1].pattern == pattern and one[2] == names), None)
            if known is None:
                literal = sum(map(len, parts))
                known = (literal, re.compile(pattern), names, _Segment())
                node.patterns.append(known)
                node.patterns.sort(key=lambda one: -one[0])
            node = known[3]
        if node.operation is None:
            node.operation = operation

    def find(self, path: str) -> tuple[ApiOperation, dict[str, str]] | None:
        """Return the operation of a percent-encoded path, and its variables, percent-encoded, or None."""
        return self._find(self._root, path[1:].split("/"), 0)

    def _find(self, node: _Segment, segments: list[str], at: int) -> tuple[ApiOperation, dict[str, str]] | None:
        if at == len(segments):
            return None if node.operation is None else (node.operation, {})
        inner = node.literal.get(unquote(segments[at]))
        found = None if inner is None else self._find(inner, segments, at + 1)
        if found is not None:
            return found
        for _, pattern, names, after in node.patterns:
            match = pattern.fullmatch(segments[at])
            found = self._find(after, segments, at + 1) if match is not None else None
            if match is not None and found is not None:
                operation, values = found
                return operation, {**dict(zip(names, match.groups(), strict=True)), **values}
        return None


def template_of(prefix: str, operation: ApiOperation) -> str:
    """Return the URI template of a GET operation, whose resources begin with ``prefix``."""
    parts = _VARIABLE.split(operation.path)
    path = "".join(
        f"{{{variable_of(part)}}}" if number % 2 else percent_encode(part, _LITERAL)
        for number, part in enumerate(parts)
    )
    query = ",".join(parameter.variable for parameter in operation.located("query"))
    return f"{prefix}{path}" + (f"{{?{query}}}" if query else "")


def read_query(operation: ApiOperation, query: str) -> dict[tuple[str, str], Any]:
    """Return the query parameters of a URI by location and name.

    Raises:
        InvalidParams: a parameter is unknown, missing, or does not have its type.
    """
    texts: dict[str, list[str]] = {}
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        texts.setdefault(unquote(name), []).append(value.replace("+", "%20"))
    known = {parameter.name: parameter for parameter in operation.located("query")}
    for name in texts:
        if name not in known:
            shown = ", ".join(known) or "none"
            raise InvalidParams(
                f"Invalid params: there is no parameter {name[:100]!r}; there are {shown[:500]}", parameter=name[:100]
            )
    missing = [name for name, parameter in known.items() if parameter.required and name not in texts]
    if missing:
        raise InvalidParams(f"Invalid params: {missing[0]} is required", parameter=missing[0])
    return {("query", name): read_value(known[name], some) for name, some in texts.items()}


def build_url(base: str, operation: ApiOperation, values: Mapping[tuple[str, str], Any]) -> str:
    """Return the URL of a request below the base URL, with path and query parameters by location and name.

    Raises:
        InvalidParams: a path parameter is missing, or could lead out of its location.
    """
    path = operation.path
    for parameter in operation.located("path"):
        if ("path", parameter.name) not in values:
            raise InvalidParams(f"Invalid params: {parameter.name} is required", parameter=parameter.name)
    known = {parameter.name: parameter for parameter in operation.located("path")}
    parts = _VARIABLE.split(path)
    path = "".join(
        encode_path_value(known[part], values["path", part]) if number % 2 else percent_encode(part, _LITERAL)
        for number, part in enumerate(parts)
    )
    if any(unquote(segment) in (".", "..") for segment in path.split("/")):
        raise InvalidParams("Invalid params: the path parameters result in a . or .. segment", parameter="uri")
    pairs: list[tuple[str, str]] = []
    for parameter in operation.located("query"):
        value = values.get(("query", parameter.name))
        if value is not None:
            pairs += query_pairs(parameter, value)
    query = "&".join(f"{name}={value}" for name, value in pairs)
    return base + path + (f"?{query}" if query else "")
