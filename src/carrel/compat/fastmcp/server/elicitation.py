"""Forms that servers ask the user to fill in, from types: scalars, choices, dataclasses and models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar, get_origin

from pydantic import BaseModel, TypeAdapter

from carrel.compat.fastmcp.utilities.json_schema import compress_schema, dereference_refs
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.elicitation import CancelledElicitation, DeclinedElicitation
from carrel.compat.wire import form_schema

__all__ = [
    "AcceptedElicitation",
    "CancelledElicitation",
    "DeclinedElicitation",
    "ElicitConfig",
    "ScalarElicitationType",
    "get_elicitation_schema",
    "handle_elicit_accept",
    "parse_elicit_response_type",
    "validate_elicitation_json_schema",
]

T = TypeVar("T")
SIMPLE = ("string", "number", "integer", "boolean")
CHOICES = ("enum", "anyOf", "oneOf")
ONE_VALUE: dict[str, Any] = {"type": "object", "required": ["value"]}


class AcceptedElicitation(BaseModel, Generic[T]):
    """The user has filled in the form."""

    action: Literal["accept"] = "accept"
    data: T


@dataclass
class ScalarElicitationType(Generic[T]):
    """Form with one field."""

    value: T


ScalarElicitationType.__doc__ = None  # which clients would show as the description of the form


@dataclass
class ElicitConfig:
    """Schema of a form, and the type of its answer, or of the field ``value`` if the schema is ``is_raw``."""

    schema: dict[str, Any]
    response_type: Any = None
    is_raw: bool = False


def parse_elicit_response_type(
    response_type: Any, response_title: str | None = None, response_description: str | None = None
) -> ElicitConfig:
    """Return the form of a type, of a list of choices, or of titled choices.

    Title and description are those of the field of a form that has only one. Version 3 has an empty form for None.

    Raises:
        TypeError: there is no type, a form cannot have a field of the type, or the type has titles of its own.
        ValueError: a list or dict is not one of choices.
    """
    if response_type is None and fastmcp_generation() < 4:
        return ElicitConfig({"type": "object", "properties": {}})
    if response_type is None:
        raise TypeError("ctx.elicit() requires a response_type, such as bool for a confirmation")
    details = {"title": response_title, "description": response_description}
    details = {key: value for key, value in details.items() if value is not None}
    config = _config_of(response_type)
    if not config.is_raw and get_origin(config.response_type) is not ScalarElicitationType:
        if details:
            raise TypeError(
                "response_title and response_description are only supported for a single value: "
                "give the fields of a class theirs with Field(title=..., description=...)"
            )
        return config
    config.schema["properties"]["value"].update(details)
    return config


def _config_of(kind: Any) -> ElicitConfig:
    if isinstance(kind, dict):
        return _choices({"type": "string", "oneOf": _titled(kind)}, Literal[tuple(kind)])
    if isinstance(kind, list):
        return _config_of_list(kind)
    scalar = kind in (bool, int, float, str) or get_origin(kind) in (Literal, list)
    if scalar or (isinstance(kind, type) and issubclass(kind, Enum)):
        kind = ScalarElicitationType[kind]
    return ElicitConfig(get_elicitation_schema(kind), kind)


def _config_of_list(given: list[Any]) -> ElicitConfig:
    inner = given[0] if len(given) == 1 else None
    if isinstance(inner, list) and inner:
        return _choices({"type": "array", "items": {"enum": inner}}, list[Literal[tuple(inner)]])  # type: ignore[misc]
    if isinstance(inner, dict) and inner:
        return _choices({"type": "array", "items": {"anyOf": _titled(inner)}}, list[Literal[tuple(inner)]])  # type: ignore[misc]
    if given and all(isinstance(each, str) for each in given):
        return _config_of(Literal[tuple(given)])
    raise ValueError(f"Invalid list response_type format. Received: {given}")


def _choices(schema: dict[str, Any], kind: Any) -> ElicitConfig:
    return ElicitConfig({**ONE_VALUE, "properties": {"value": schema}}, kind, is_raw=True)


def _titled(choices: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    if not choices:
        raise ValueError("Dict response_type cannot be empty.")
    return [{"const": value, "title": details.get("title", value)} for value, details in choices.items()]


def get_elicitation_schema(response_type: Any) -> dict[str, Any]:
    """Return the schema of the form for a class.

    Raises:
        TypeError: a form cannot have a field of one of its types.
    """
    schema = compress_schema(dereference_refs(TypeAdapter(response_type).json_schema()))
    if get_origin(response_type) is ScalarElicitationType and fastmcp_generation() > 3:
        schema = form_schema(schema)  # the class has nothing to tell the user
    validate_elicitation_json_schema(schema)
    return schema


def handle_elicit_accept(config: ElicitConfig, content: Any) -> AcceptedElicitation[Any]:
    """Return the answer of the user.

    Raises:
        ValueError: it does not fit the form.
    """
    if config.is_raw:
        if not content or "value" not in content:
            raise ValueError("Elicitation response missing required 'value' field.")
        content = content["value"]
    elif config.response_type is None:
        if content:
            raise ValueError(f"Elicitation expected an empty response, but received: {content}")
        return AcceptedElicitation[Any](data={})
    found = TypeAdapter(config.response_type).validate_python(content)
    return AcceptedElicitation[Any](data=found.value if isinstance(found, ScalarElicitationType) else found)


def validate_elicitation_json_schema(schema: dict[str, Any]) -> None:
    """Check that a schema is one of a form: an object whose fields are primitive, choices or lists of choices.

    Raises:
        TypeError: it is not.
    """
    if schema.get("type") != "object":
        raise TypeError(f"Elicitation schema must be an object schema, not one of type {schema.get('type')!r}")
    for name, field in schema.get("properties", {}).items():
        options = [*field.get("anyOf", ()), *field.get("oneOf", ())] or [field]
        problems = (_problem(each, schema) for each in options if each.get("type") != "null")
        problem = next((each for each in problems if each), None)
        if problem is not None:
            raise TypeError(f"Elicitation schema field {name!r} {problem}")


def _problem(field: dict[str, Any], schema: dict[str, Any]) -> str | None:
    """Return why a form cannot have a field, or None."""
    if "$ref" in field:
        field = schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2], {})
    if "const" in field or "enum" in field or field.get("type") in SIMPLE:
        return None
    if field.get("type") != "array":
        return "is neither a primitive type, a choice nor a list of choices"
    items = field.get("items", {})
    if items.get("type") == "object" or "$ref" in items:
        return "is an array of objects: fields are primitive types, choices or lists of choices"
    return None if any(key in items for key in CHOICES) else "is an array: arrays are only allowed for choices"
