"""Made-up values that fit JSON Schemas, as arguments of tools. Runs with any Python, without packages."""

from __future__ import annotations


def example(schema, root):
    """Return a value that fits a JSON Schema, as far as it says."""
    if not isinstance(schema, dict):
        return "UTC-text"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return example({**root.get("$defs", {}), **root.get("definitions", {})}.get(name, {}), root)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return example(schema[key][0], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return arguments(schema, root)
    if kind == "array":
        return [example(schema.get("items", {}), root)]
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1))
    if kind == "boolean":
        return True
    return None if kind == "null" else "UTC-text"[: schema.get("maxLength", 8)]


def arguments(schema, root):
    """Return the required arguments of a tool."""
    properties = schema.get("properties", {})
    return {name: example(properties.get(name, {}), root) for name in schema.get("required", ())}
