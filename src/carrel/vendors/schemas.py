"""JSON Schemas of tools as vendors accept them: an object at the root, in 2020-12, without references.

Schemas come from servers, so all work is bounded: a schema that is too large or nested too deeply becomes one that
allows everything. The server checks the arguments anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias
from urllib.parse import unquote

__all__ = [
    "Schema",
    "inlined",
    "merged",
    "object_schema",
    "renamed",
    "restored",
    "subschemas_changed",
]

Schema: TypeAlias = dict[str, Any]

#: Depth of nesting that is kept. Vendors allow less.
MAX_DEPTH = 48
#: Number of schemas that inlining may make of one.
MAX_SCHEMAS = 5_000

MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLES = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames"),
    *("not", "if", "then", "else"),
)
#: Keywords that Anthropic and OpenAI refuse at the root, besides the merged ones.
NOT_AT_ROOT = ("enum", "const", "not", "if", "then", "else", "$schema")
#: Keywords that are merged into the root.
MERGED = ("$ref", "allOf", "anyOf", "oneOf")


def object_schema(schema: Mapping[str, Any]) -> Schema:
    """Return an input schema as Anthropic and OpenAI accept it: of an object, in dialect 2020-12.

    ``allOf``, ``anyOf``, ``oneOf`` and a reference at the root are merged into it, with all references inlined. Without
    these, references stay.
    """
    root = _modern(schema, 0)
    if any(keyword in root for keyword in MERGED):
        root = merged(inlined(root))
    root = {key: value for key, value in root.items() if key not in NOT_AT_ROOT}
    root["type"] = "object"
    properties = root.get("properties")
    root["properties"] = properties if isinstance(properties, dict) else {}
    return root


def inlined(schema: Mapping[str, Any]) -> Schema:
    """Return a schema without ``$ref`` and ``$defs``. Where a schema contains itself, it allows everything."""
    return _Inliner(_modern(schema, 0)).root()


def merged(schema: Schema) -> Schema:
    """Return a schema with its ``allOf``, ``anyOf`` and ``oneOf`` of objects merged into it.

    The result has the properties of all parts. A property is required if any part of ``allOf`` or every part of
    ``anyOf`` and ``oneOf`` requires it. The result allows everything that the original allows, and more.
    """
    whole = {key: value for key, value in schema.items() if key not in ("allOf", "anyOf", "oneOf")}
    whole["properties"] = dict(_mapping(schema.get("properties")))
    required = dict.fromkeys(_texts(schema.get("required")))
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = [merged(part) for part in _list(schema.get(keyword)) if isinstance(part, dict)]
        wanted = [dict.fromkeys(_texts(part.get("required"))) for part in parts]
        if wanted and keyword != "allOf":
            wanted = [{name: None for name in wanted[0] if all(name in other for other in wanted)}]
        for names in wanted:
            required.update(names)
        for part in parts:
            _merge(whole, part)
    if required:
        whole["required"] = list(required)
    if not whole["properties"] and "properties" not in schema:
        del whole["properties"]
    return whole


def _merge(whole: Schema, part: Schema) -> None:
    properties = whole["properties"]
    for name, value in _mapping(part.get("properties")).items():
        other = properties.setdefault(name, value)
        if other != value and isinstance(other, dict):
            choices = other["anyOf"] if set(other) == {"anyOf"} else [other]
            if value not in choices:
                properties[name] = {"anyOf": [*choices, value]}
    for key, value in part.items():
        if key not in ("properties", "required", "title"):
            whole.setdefault(key, value)


def renamed(schema: Schema, allowed: re.Pattern[str]) -> tuple[Schema, dict[str, str]]:
    """Return a schema of an object with names of properties that are allowed, and the original names of changed ones.

    Args:
        allowed: pattern of the names; letters, digits and underscores, up to 64, have to be allowed by it.
    """
    properties = _mapping(schema.get("properties"))
    if all(map(allowed.fullmatch, properties)):
        return schema, {}
    originals: dict[str, str] = {}
    names: dict[str, str] = {}
    for name in properties:
        new = name
        if not allowed.fullmatch(name):
            new = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:55].lstrip("_0123456789") or "argument"
            if new in properties or new in originals:
                new = f"{new}_{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
            originals[new] = name
        names[name] = new
    changed = dict(schema)
    changed["properties"] = {names[name]: value for name, value in properties.items()}
    if "required" in schema:
        changed["required"] = [names.get(name, name) for name in _texts(schema["required"])]
    return changed, originals


def restored(arguments: Mapping[str, Any], originals: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments with the original names of ``renamed``."""
    return {originals.get(name, name): value for name, value in arguments.items()}


def subschemas_changed(schema: Schema, change: Callable[[Any], Any]) -> Schema:
    """Return a schema with each schema directly in it replaced by what ``change`` returns."""
    result: Schema = {}
    for key, value in schema.items():
        if key in MAPS and isinstance(value, dict):
            result[key] = {name: change(part) for name, part in value.items()}
        elif key in LISTS and isinstance(value, list):
            result[key] = [change(part) for part in value]
        elif key in SINGLES and isinstance(value, dict | bool):
            result[key] = change(value)
        else:
            result[key] = value
    return result


def _modern(schema: Any, depth: int) -> Any:
    """Convert keywords of older dialects to 2020-12, and remove keywords of a wrong type."""
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else {}
    if depth > MAX_DEPTH:
        return {}
    new = dict(schema)
    if isinstance(new.get("items"), list):  # draft-07
        new["prefixItems"] = new.pop("items")
        if "additionalItems" in new:
            new["items"] = new.pop("additionalItems")
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(exclusive), bool):  # draft-04
            is_exclusive = new.pop(exclusive)
            if is_exclusive and bound in new:
                new[exclusive] = new.pop(bound)
    if not isinstance(new.get("required", []), list):  # draft-03
        del new["required"]
    for keyword in MAPS:
        if not isinstance(new.get(keyword, {}), Mapping):
            del new[keyword]
    return subschemas_changed(new, lambda part: _modern(part, depth + 1))


class _Inliner:
    """Inlining of the references of one schema, up to a number of schemas."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._left = MAX_SCHEMAS

    def root(self) -> Schema:
        found = self._inline(self._schema, ("#",), 0)
        return found if isinstance(found, dict) else {}

    def _inline(self, schema: Any, inside: tuple[str, ...], depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            return {}
        reference = schema.get("$ref")
        remaining = {
            key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions", "$schema")
        }
        if isinstance(reference, str):
            target = _target(self._schema, reference)
            if reference in inside or not isinstance(target, dict):
                kept = {"type": target["type"]} if isinstance(target, dict) and "type" in target else {}
                return {**kept, **remaining}
            return self._inline({**target, **remaining}, (*inside, reference), depth + 1)
        return subschemas_changed(remaining, lambda part: self._inline(part, inside, depth + 1))


def _target(schema: Any, reference: str) -> Any:
    """Return the target of a reference within a schema, or None if it is missing or external."""
    if not reference.startswith("#"):
        return None
    found = schema
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> Iterable[str]:
    return [text for text in _list(value) if isinstance(text, str)]
