"""Elicitation forms: Python types as the flat JSON Schema of ``requestedSchema``, and validation of answers.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema
"""

from __future__ import annotations

import datetime
import enum
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import msgspec.inspect
from msgspec import UNSET

from carrel.errors import ConfigError

__all__ = ["ElicitationForm", "form_of"]

#: Name of the field in a form of one value.
VALUE = "value"
NOTHING = {"type": "null"}
#: Schema keywords of a field, by its type.
SHOWN: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "format", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems", "items"),
}
#: Schema keywords of any field.
COMMON = ("type", "title", "description", "default")
#: Schema keywords that are not sent, because no revision has them or the client has no use for them.
UNSHOWN = ("pattern", "uniqueItems", "examples")


class ElicitationForm(msgspec.Struct, frozen=True):
    """Elicitation form: its flat schema, and the function that reads an answer.

    ``read`` raises ValueError where the answer does not fit.
    """

    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], Any]

    @property
    def several(self) -> bool:
        """Whether there is a field with several choices (multi-select)."""
        return any(field["type"] == "array" for field in self.schema["properties"].values())


def form_of(kind: Any) -> ElicitationForm:
    """Return the form for a class with simple fields, one simple type, a schema (a dict), or nothing (None).

    Raises:
        ConfigError: it has fields that a form cannot have: nested objects, lists other than of choices.
    """
    if kind is None:
        return ElicitationForm({"type": "object", "properties": {}}, lambda content: None)
    if isinstance(kind, dict):
        return _form(kind, _validate_by(kind))
    from carrel.server.schema.type_hints import plain_type, reject_slow_models, reject_slow_patterns, walk

    if hasattr(kind, "model_json_schema"):  # a pydantic model
        try:
            reject_slow_models(kind.__pydantic_core_schema__)
        except TypeError as error:
            raise ConfigError(f"{kind!r} cannot be a form: {error}") from None
        return _form(_flat(kind.model_json_schema(by_alias=True)), kind.model_validate)
    from carrel.server.schema.schema import schemas_of

    try:
        reject_slow_patterns(list(walk(kind)))
        (schema,), definitions = schemas_of([kind])
        flat = _flat({**schema, "$defs": definitions})
        if "properties" in flat:
            _describe_fields(plain_type(kind), flat["properties"])
            return _form(flat, lambda content: msgspec.convert(content, kind))
        _describe(kind, flat)
    except (TypeError, NameError) as error:
        raise ConfigError(f"{kind!r} cannot be a form: {error}") from None
    required = [] if NOTHING in schema.get("anyOf", ()) else [VALUE]
    wrapped = {"type": "object", "properties": {VALUE: flat}, "required": required}
    return _form(wrapped, lambda content: msgspec.convert(content.get(VALUE), kind))


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Inline the references of a schema, and drop null from optional types."""
    definitions = schema.get("$defs", {})

    def follow(node: dict[str, Any]) -> dict[str, Any]:
        node = dict(node)
        while "$ref" in node or "anyOf" in node:
            choices = [choice for choice in node.get("anyOf", ()) if choice != NOTHING]
            if "$ref" in node:
                target = dict(definitions[node.pop("$ref").rpartition("/")[2]])
                if "enum" in target:
                    target.pop("title", None)  # the name of a class, not of a field
            elif len(choices) == 1:
                del node["anyOf"]
                if node.get("default", UNSET) is None:
                    del node["default"]
                target = choices[0]
            else:
                break
            node = {**target, **node}
        if "const" in node:
            node["enum"] = [node.pop("const")]
        return node

    flat = follow({key: value for key, value in schema.items() if key != "$defs"})
    if "properties" in flat:
        flat["properties"] = {name: follow(field) for name, field in flat["properties"].items()}
    for field in [flat, *flat.get("properties", {}).values()]:
        if isinstance(field.get("items"), dict):
            field["items"] = follow(field["items"])
    return flat


def _describe_fields(kind: Any, properties: dict[str, Any]) -> None:
    """Complete the JSON Schema of a class's fields: descriptions, choices and defaults."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        node, annotation = properties[field.encode_name], hints[field.name]
        while typing.get_origin(annotation) in (typing.Required, typing.NotRequired):
            (annotation,) = typing.get_args(annotation)
        _describe(annotation, node)
        if field.default_factory is not msgspec.NODEFAULT:
            node.setdefault("default", msgspec.to_builtins(field.default_factory()))


def _describe(annotation: Any, node: dict[str, Any]) -> None:
    """Order the choices of a field by definition, and add titles to the choices of an Enum."""
    from carrel.server.schema.type_hints import describe, plain_type, values_of

    for description in filter(None, map(describe, getattr(annotation, "__metadata__", ()))):
        node.setdefault("description", description)
    if plain_type(annotation) is datetime.datetime:
        node["format"] = "date-time"  # msgspec sets it only for datetimes with a time zone
    choices = () if plain_type(annotation) is bool else values_of(annotation)
    if not choices:
        return
    several = node.get("type") == "array"
    target = node["items"] if several else node
    target.pop("enum", None)
    if all(isinstance(choice, enum.Enum) for choice in choices):
        titled = [{"const": choice.value, "title": _title(choice.name)} for choice in choices]
        target["anyOf" if several else "oneOf"] = titled
    else:
        target["enum"] = [choice.value if isinstance(choice, enum.Enum) else choice for choice in choices]
    node.setdefault("type", "string")


def _title(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words.capitalize() if words.isupper() or words.islower() else words


def _form(schema: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> ElicitationForm:
    """Return the form of a schema, reduced to what elicitation allows.

    Raises:
        ConfigError: it has fields that a form cannot have.
    """
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise ConfigError('A form is a schema with "type": "object" and "properties"')
    if not all(isinstance(field, dict) for field in properties.values()):
        raise ConfigError("Each of the properties of a form is a schema")
    shown: dict[str, Any] = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    shown["type"] = "object"
    shown["properties"] = {name: _shown(name, field) for name, field in properties.items()}
    if schema.get("required"):
        shown["required"] = list(schema["required"])
    return ElicitationForm(shown, lambda content: read(_tidied(content, properties)))


def _shown(name: str, field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, reduced to what elicitation allows.

    Raises:
        ConfigError: a form cannot have it.
    """
    kind: Any = field.get("type", "string" if "enum" in field or "oneOf" in field else None)
    if not isinstance(kind, str) or kind not in SHOWN:
        raise ConfigError(f"{name}: a form has text, numbers, yes or no, and choices; not {kind or field}")
    odd = set(field) - {*SHOWN[kind], *COMMON, *UNSHOWN}
    if odd:
        raise ConfigError(f"{name}: a form cannot have {', '.join(sorted(odd))}")
    if field.get("format", "email") not in FORMATS:
        raise ConfigError(f"{name}: a form knows the formats {', '.join(FORMATS)}; not {field['format']}")
    shown = {key: field[key] for key in field if key not in UNSHOWN} | {"type": kind}
    if kind == "array":
        items = field.get("items", {})
        if not isinstance(items, dict) or not ("enum" in items or "anyOf" in items):
            raise ConfigError(f"{name}: a list in a form is a choice of several; its items need an enum")
        shown["items"] = (
            {"type": "string", "enum": _texts(name, items["enum"])}
            if "enum" in items
            else _titled(name, items, "anyOf")
        )
        if "default" in shown:
            shown["default"] = list(shown["default"])
    elif "enum" in field:
        shown["enum"] = _texts(name, field["enum"])
    elif "oneOf" in field:
        shown |= _titled(name, field, "oneOf")
    return shown


def _texts(name: str, values: Any) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{name}: the choices of a form must be text")
    return list(values)


def _titled(name: str, node: dict[str, Any], key: str) -> dict[str, Any]:
    """Return choices with titles, under their keyword."""
    values = _texts(name, [choice.get("const") for choice in node[key]])
    titles = [choice.get("title", choice["const"]) for choice in node[key]]
    return {key: [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]}


def _tidied(content: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an answer without unknown and empty fields, and with whole numbers as integers.

    Raises:
        ValueError: a value does not have the format of its field.
    """
    tidied = {name: value for name, value in content.items() if name in properties and value is not None}
    for name, value in tidied.items():
        field = properties[name]
        if field.get("type") == "integer" and isinstance(value, float) and value.is_integer():
            tidied[name] = int(value)
        if "format" in field and isinstance(value, str) and not (value == "" == field.get("default")):
            FORMATS[field["format"]](value)
    return tidied


def _validate_by(schema: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    from carrel.protocol.json_schema import Validator

    validator = Validator({key: value for key, value in schema.items() if key != "$schema"}, "answer")

    def read(content: dict[str, Any]) -> dict[str, Any]:
        validator.validate(content)
        return content

    return read


def _check_email(text: str) -> None:
    name, at, host = text.rpartition("@")
    if not (name and at and host) or any(character.isspace() for character in text):
        raise ValueError(f"{text[:80]!r} is not an e-mail address")


def _check_uri(text: str) -> None:
    from carrel.uri.parse import normalize

    normalize(text)


def _check_date(text: str) -> None:
    msgspec.convert(text, datetime.date)


def _check_time(text: str) -> None:
    msgspec.convert(text, datetime.datetime)


#: Formats of text, each with its check, which raises ValueError.
FORMATS: Mapping[str, Callable[[str], None]] = {
    "email": _check_email,
    "uri": _check_uri,
    "date": _check_date,
    "date-time": _check_time,
}
