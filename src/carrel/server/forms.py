"""The forms of elicitation: from Python types to the flat schemas that clients can show, and answers checked.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from carrel.errors import ConfigError

__all__ = ["Form", "form_of"]

#: The field that a form of one value has.
VALUE = "value"
FORMATS = ("email", "uri", "date", "date-time")
ALLOWED = {
    "string": {"minLength", "maxLength", "format", "default", "enum", "oneOf", "enumNames", "pattern"},
    "number": {"minimum", "maximum", "default"},
    "integer": {"minimum", "maximum", "default"},
    "boolean": {"default"},
    "array": {"items", "minItems", "maxItems", "default"},
}


class Form(msgspec.Struct, frozen=True):
    """A form: its schema, and how to read what comes back.

    ``read`` raises ValueError where the answer does not fit.
    """

    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], Any]


def form_of(kind: Any) -> Form:
    """Return the form for a schema (a dict), a class with simple fields, or one simple type.

    Raises:
        ConfigError: it has fields that a form cannot have: nested objects, lists other than of choices.
    """
    if isinstance(kind, dict):
        return Form(_checked(kind), _validating(kind))
    if hasattr(kind, "model_json_schema"):  # a pydantic model
        schema = kind.model_json_schema(by_alias=True)
        return Form(_checked(_flat(schema)), kind.model_validate)
    try:
        (schema,), components = msgspec.json.schema_components([kind])
    except TypeError as error:
        raise ConfigError(f"{kind!r} cannot be a form: {error}") from None
    whole = {**schema, "$defs": components} if components else schema
    flat = _flat(whole)
    if flat.get("type") == "object" and "properties" in flat:
        return Form(_checked(flat), lambda content: msgspec.convert(content, kind))
    wrapped = {"type": "object", "properties": {VALUE: flat}, "required": [VALUE]}
    return Form(_checked(wrapped), lambda content: msgspec.convert(content.get(VALUE), kind))


def _validating(schema: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    from carrel.server.schema import Validator

    validator = Validator({key: value for key, value in schema.items() if key != "$schema"}, "answer")

    def read(content: dict[str, Any]) -> dict[str, Any]:
        validator.validate(content)
        return content

    return read


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Put what a schema refers to where it is referred to, and turn the optional into the not required."""
    definitions = schema.get("$defs", {})

    def resolve(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            target = definitions.get(node["$ref"].rpartition("/")[2], {})
            return {**resolve(target), **{key: value for key, value in node.items() if key != "$ref"}}
        if "anyOf" in node and {"type": "null"} in node["anyOf"]:
            rest = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
            others = {
                key: value for key, value in node.items() if key != "anyOf" and not (key == "default" and not value)
            }
            return {**(resolve(rest[0]) if len(rest) == 1 else {"anyOf": rest}), **others}
        node = {key: value for key, value in node.items() if key not in ("$defs", "additionalProperties")}
        if "properties" in node:
            node["properties"] = {name: resolve(value) for name, value in node["properties"].items()}
        if "items" in node:
            node["items"] = resolve(node["items"])
        if "enum" in node and "type" not in node and all(isinstance(value, str) for value in node["enum"]):
            node["type"] = "string"
        if "const" in node and "type" not in node:
            node = {"type": "string", "enum": [node["const"]]}
        return node

    flat = resolve({key: value for key, value in schema.items() if key != "$defs"} | {"$defs": definitions})
    return {key: value for key, value in flat.items() if key != "$defs"}


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        raise ConfigError('A form is a schema with "type": "object" and "properties"')
    for name, field in schema["properties"].items():
        kind = field.get("type")
        if kind not in ALLOWED:
            raise ConfigError(f"{name}: a form has text, numbers, yes or no, and choices; not {kind or field}")
        odd = set(field) - ALLOWED[kind] - {"type", "title", "description", "$schema", "examples"}
        if odd:
            raise ConfigError(f"{name}: a form cannot have {', '.join(sorted(odd))}")
        if kind == "array":
            items = field.get("items", {})
            if not ("enum" in items or "anyOf" in items):
                raise ConfigError(f"{name}: a list in a form is a choice of several; its items need an enum")
            field.pop("uniqueItems", None)
        if field.get("format") is not None and field["format"] not in FORMATS:
            raise ConfigError(f"{name}: a form knows the formats {', '.join(FORMATS)}; not {field['format']}")
    return schema
