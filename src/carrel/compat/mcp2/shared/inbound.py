"""Headers of HTTP requests that repeat what their bodies have (2026-07-28)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from carrel.protocol.revisions import LATEST

__all__ = [
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PARAM_HEADER_PREFIX",
    "MCP_PROTOCOL_VERSION_HEADER",
    "NAME_BEARING_METHODS",
    "X_MCP_HEADER_KEY",
    "find_invalid_x_mcp_header",
    "x_mcp_header_map",
]

MCP_PROTOCOL_VERSION_HEADER = "mcp-protocol-version"
MCP_METHOD_HEADER = "mcp-method"
MCP_NAME_HEADER = "mcp-name"
MCP_PARAM_HEADER_PREFIX = "Mcp-Param-"
X_MCP_HEADER_KEY = "x-mcp-header"
NAME_BEARING_METHODS: Mapping[str, str] = MappingProxyType(
    {method: row.name_field for method, row in LATEST.requests.items() if row.name_field is not None}
)

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
ALLOWED = ("string", "integer", "boolean")
#: Keywords with a schema, a list of schemas, and schemas by name.
SINGLE = frozenset(
    (
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
NAMED = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))


def _schemas(root: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield all schemas in a schema, with the path if the schema is a nested property."""
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while stack:
        path, schema = stack.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        inner: list[tuple[tuple[str, ...] | None, Any]] = []
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                inner += [(None if path is None else (*path, name), each) for name, each in value.items()]
            elif keyword in SINGLE:
                inner.append((None, value))
            elif keyword in LISTS and isinstance(value, list):
                inner += [(None, each) for each in value]
            elif keyword in NAMED and isinstance(value, dict):
                inner += [(None, each) for each in value.values()]
        stack += reversed(inner)


def find_invalid_x_mcp_header(input_schema: Any) -> str | None:
    """Return why a parameter of a schema cannot be repeated in a header; None if all of them can be."""
    seen: dict[str, str] = {}
    for path, schema in _schemas(input_schema):
        if X_MCP_HEADER_KEY not in schema:
            continue
        if not path:
            return f"{X_MCP_HEADER_KEY} found at a schema position not reachable via a pure `properties` chain"
        where, header, kind = ".".join(path), schema[X_MCP_HEADER_KEY], schema.get("type")
        only = f"property {where!r}: {X_MCP_HEADER_KEY} is only permitted on integer/string/boolean properties"
        if not isinstance(header, str):
            return f"property {where!r}: {X_MCP_HEADER_KEY} must be a string, not {type(header).__name__}"
        if not TOKEN.fullmatch(header):
            return f"property {where!r}: {X_MCP_HEADER_KEY} {header!r} is not an RFC 9110 token"
        if not isinstance(kind, str):
            return f"{only} (the type keyword is {type(kind).__name__}, not a string)"
        if kind not in ALLOWED:
            return f"{only} (got {kind!r})"
        if header.lower() in seen:
            return f"{X_MCP_HEADER_KEY} {header!r} on property {where!r} duplicates property {seen[header.lower()]!r}"
        seen[header.lower()] = where
    return None


def x_mcp_header_map(input_schema: Any) -> dict[tuple[str, ...], str]:
    """Return the header of each parameter that is repeated in one, by the path of the parameter."""
    found = ((path, schema.get(X_MCP_HEADER_KEY)) for path, schema in _schemas(input_schema))
    return {path: header for path, header in found if path and isinstance(header, str)}
