"""JSON Schemas as servers list them: without titles, and without references where that is possible."""

from __future__ import annotations

import copy
from typing import Any

from carrel.compat.generation import fastmcp_generation

__all__ = ["compress_schema", "dereference_refs"]

DEFINITIONS = "#/$defs/"
MAPS = ("properties", "$defs", "patternProperties", "dependentSchemas", "definitions")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
STRUCTURE = {*MAPS, *LISTS, *SINGLE, "type", "$ref", "enum", "const", "format", "required"}
REMARKS = {"title", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}


def _children(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that are directly in a schema."""
    found = [each for key in MAPS if isinstance(node.get(key), dict) for each in node[key].values()]
    found += [each for key in LISTS if isinstance(node.get(key), list) for each in node[key]]
    found += [node[key] for key in SINGLE if key in node]
    return [each for each in found if isinstance(each, dict)]


def compress_schema(schema: dict[str, Any], prune_titles: bool = False) -> dict[str, Any]:
    """Return a schema without the definitions that it does not use, and without titles if so told.

    In programs for FastMCP 2, no object refuses further properties.
    """
    found = copy.deepcopy(schema)
    if prune_titles:
        _prune(found)
    if fastmcp_generation() == 2:
        _open(found)
    definitions = found.get("$defs")
    if isinstance(definitions, dict):
        used: set[str] = set()
        _mark({key: value for key, value in found.items() if key != "$defs"}, definitions, used)
        found["$defs"] = {name: each for name, each in definitions.items() if name in used}
        if not found["$defs"]:
            del found["$defs"]
    return found


def _prune(node: dict[str, Any]) -> None:
    if isinstance(node.get("title"), str) and (STRUCTURE & node.keys() or node.keys() <= REMARKS):
        del node["title"]
    for child in _children(node):
        _prune(child)


def _open(node: dict[str, Any]) -> None:
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]
    for child in _children(node):
        _open(child)


def _mark(node: Any, definitions: dict[str, Any], used: set[str]) -> None:
    """Add the names of the definitions that a value refers to, directly or not."""
    if isinstance(node, list):
        for each in node:
            _mark(each, definitions, used)
    elif isinstance(node, dict):
        name = _target(node, definitions)
        if name is not None and name not in used:
            used.add(name)
            _mark(definitions[name], definitions, used)
        for each in node.values():
            _mark(each, definitions, used)


def _target(node: dict[str, Any], definitions: dict[str, Any]) -> str | None:
    reference = node.get("$ref")
    name = reference.removeprefix(DEFINITIONS) if isinstance(reference, str) else None
    return name if name in definitions else None


def dereference_refs(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions in place of the references to them.

    Definitions that contain themselves cannot be put in place: then only a reference at the root is.
    """
    definitions = schema.get("$defs")
    if not isinstance(definitions, dict):
        return schema
    rest = {key: value for key, value in schema.items() if key != "$defs"}
    try:
        found = _inlined(rest, definitions, ())
    except RecursionError:
        name = _target(schema, definitions)
        if name is None:
            return schema
        return {**definitions[name], **{key: value for key, value in schema.items() if key != "$ref"}}
    assert isinstance(found, dict)
    return found


def _inlined(node: Any, definitions: dict[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inlined(each, definitions, path) for each in node]
    if not isinstance(node, dict):
        return node
    name = _target(node, definitions)
    if name is None:
        return {key: _inlined(value, definitions, path) for key, value in node.items() if key != "discriminator"}
    if name in path:
        raise RecursionError(name)
    inner = _inlined(definitions[name], definitions, (*path, name))
    return {**inner, **{key: _inlined(value, definitions, path) for key, value in node.items() if key != "$ref"}}
