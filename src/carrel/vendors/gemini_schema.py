"""JSON Schema converted to the subset of Gemini's function declarations.

https://ai.google.dev/api/caching#Schema

Types are single and in capitals, null is ``nullable``, ``anyOf`` stands alone, and there are no references. Gemini
refuses the whole request because of one unknown keyword. The description states constraints that the subset cannot
express; the server checks the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from carrel.vendors.schemas import Schema, inlined, merged

__all__ = ["gemini_schema"]

TYPES = {
    "string": "STRING",
    "number": "NUMBER",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "array": "ARRAY",
    "object": "OBJECT",
}
#: What stands for a schema that allows everything.
ANYTHING = ("STRING", "NUMBER", "BOOLEAN", "OBJECT")
FORMATS = {
    "STRING": ("enum", "date-time"),
    "NUMBER": ("float", "double"),
    "INTEGER": ("int32", "int64"),
}
#: Keywords that are copied unchanged: for every type, and for each type.
TEXTS = ("title", "description")
KEPT_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "STRING": ("minLength", "maxLength", "pattern"),
    "NUMBER": ("minimum", "maximum"),
    "INTEGER": ("minimum", "maximum"),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
}
#: Characters of a schema that the description states.
MAX_DESCRIBED = 500
#: Keywords that have no counterpart, and that the description states.
NOTED = {
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "format": "format",
    "default": "default",
}


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a JSON Schema as Gemini's ``Schema``."""
    return _convert(inlined(schema))


def _convert(schema: Any) -> Schema:
    if not isinstance(schema, dict):
        return _anything({})
    if "allOf" in schema:
        choices = {key: schema[key] for key in ("anyOf", "oneOf") if key in schema}
        remaining = {key: value for key, value in schema.items() if key not in choices}
        schema = {**merged(remaining), **choices}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    options = [part for key in ("anyOf", "oneOf") for part in _list(schema.get(key))]
    if options and "properties" in schema:
        return _convert(merged(schema))
    if options:
        return _choice(schema, options)
    types = [kind for kind in _types(schema) if kind != "null"]
    nullable = "null" in _types(schema) or None in _list(schema.get("enum"))
    if not types:
        return _anything(schema)
    if len(types) > 1:
        return _choice(schema, [{**_without_type(schema), "type": kind} for kind in types], nullable)
    found = _single(schema, TYPES[types[0]])
    if nullable:
        found["nullable"] = True
    return found


def _types(schema: Schema) -> list[str]:
    """Return the types of a schema, or the types that its other keywords imply."""
    listed = schema.get("type")
    types = [listed] if isinstance(listed, str) else _list(listed)
    types = [kind for kind in types if isinstance(kind, str) and (kind in TYPES or kind == "null")]
    if types:
        return list(dict.fromkeys(types))
    if _list(schema.get("enum")):
        return list(dict.fromkeys(map(_type_of, schema["enum"])))
    if "properties" in schema or isinstance(schema.get("additionalProperties"), dict):
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
    return "array"


def _single(schema: Schema, kind: str) -> Schema:
    found: Schema = {"type": kind}
    notes = []
    kept, formats = KEPT_BY_TYPE.get(kind, ()), FORMATS.get(kind, ())
    for key, value in schema.items():
        text = key in TEXTS and isinstance(value, str)
        if key in kept or text or (key == "format" and value in formats):
            found[key] = value
        elif key in NOTED:
            notes.append(f"{NOTED[key]} {value if isinstance(value, str) else _json(value)}")
    _add_enum(found, [value for value in _list(schema.get("enum")) if value is not None], notes)
    if kind == "OBJECT":
        _add_properties(found, schema, notes)
    if kind == "ARRAY":
        _add_items(found, schema)
    return _described(found, notes)


def _add_enum(found: Schema, values: list[Any], notes: list[str]) -> None:
    if not values:
        return
    if found["type"] == "STRING" and all(isinstance(value, str) and value for value in values):
        found["enum"] = values
        found["format"] = "enum"
    else:  # only texts that are not empty are accepted
        notes.append("one of: " + ", ".join(map(_json, values)))


def _add_properties(found: Schema, schema: Schema, notes: list[str]) -> None:
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        found["properties"] = {name: _convert(part) for name, part in properties.items()}
        required = [name for name in _list(schema.get("required")) if name in properties]
        if required:
            found["required"] = required
    other = schema.get("additionalProperties")
    if isinstance(other, dict) and other and len(_json(other)) <= MAX_DESCRIBED:
        notes.append(f"each value is of the schema {_json(other)}")


def _add_items(found: Schema, schema: Schema) -> None:
    prefix = _list(schema.get("prefixItems"))
    if not prefix:
        found["items"] = _convert(schema.get("items"))
        return
    items = schema.get("items")
    found["items"] = _choice({}, [*prefix, *([items] if isinstance(items, dict) else [])])
    if items is False:
        found.setdefault("maxItems", len(prefix))


def _choice(schema: Schema, options: list[Any], nullable: bool = False) -> Schema:
    """Return what allows each of the options. ``anyOf`` has no keyword beside it: the options get the description."""
    converted: list[Schema] = []
    for option in options:
        if isinstance(option, dict) and (option.get("type") == "null" or option.get("const", "") is None):
            nullable = True
            continue
        one = _convert(option)
        if one not in converted:
            converted.append(one)
    if not converted:
        return _anything(schema)
    about = schema.get("description")
    flat = [choice for one in converted for choice in one.get("anyOf", [one])]
    for one in flat:
        if isinstance(about, str) and about not in one.get("description", ""):
            one["description"] = f"{about} {one['description']}" if "description" in one else about
        if nullable:
            one["nullable"] = True
    if len(flat) == 1 and "default" in schema:
        return _described(flat[0], [f"default {_json(schema['default'])}"])
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _anything(schema: Schema) -> Schema:
    about = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
    return {"anyOf": [{"type": kind, **about} for kind in ANYTHING]}


def _described(found: Schema, notes: list[str]) -> Schema:
    if notes:
        before = f"{found['description']} " if found.get("description") else ""
        found["description"] = f"{before}({'; '.join(notes)})"
    return found


def _without_type(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "type"}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
