"""Forms that servers ask the user to fill in, from types: scalars, choices, dataclasses and models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.elicitation import CancelledElicitation, DeclinedElicitation
from carrel.compat.wire import form_schema

__all__ = ["AcceptedElicitation", "CancelledElicitation", "DeclinedElicitation", "Form", "form_of"]

T = TypeVar("T")
SIMPLE = ("string", "number", "integer", "boolean")
ONE_VALUE: dict[str, Any] = {"type": "object", "required": ["value"]}


class AcceptedElicitation(BaseModel, Generic[T]):
    """The user has filled in the form."""

    action: Literal["accept"] = "accept"
    data: T


@dataclass
class ScalarElicitationType(Generic[T]):
    """Form with one field."""

    value: T


class InlineEnums(GenerateJsonSchema):
    """Generator of schemas in which enumerations are where they are used, as forms need them."""

    def generate_inner(self, schema: Any) -> Any:
        """Return the schema of a type."""
        return self.enum_schema(schema) if schema["type"] == "enum" else super().generate_inner(schema)


@dataclass
class Form:
    """Schema of a form, and the type that its answer is converted to; None for one without a type."""

    schema: dict[str, Any]
    kind: Any = None
    choices: bool = False

    def read(self, content: dict[str, Any] | None) -> AcceptedElicitation[Any]:
        """Return the answer of the user.

        Raises:
            ValueError: it does not fit the form.
        """
        if self.choices:
            if not content or "value" not in content:
                raise ValueError("Elicitation response missing required 'value' field.")
            return AcceptedElicitation[Any](data=content["value"])
        if self.kind is None:
            if content:
                raise ValueError(f"Elicitation expected an empty response, but received: {content}")
            return AcceptedElicitation[Any](data={})
        found = TypeAdapter(self.kind).validate_python(content)
        return AcceptedElicitation[Any](data=found.value if isinstance(found, ScalarElicitationType) else found)


def form_of(kind: Any) -> Form:
    """Return the form of a type, of a list of choices, or of titled choices; an empty one for None.

    Raises:
        TypeError: a form cannot have a field of the type.
        ValueError: a list or dict is not one of choices.
    """
    if kind is None:
        return Form({"type": "object", "properties": {}})
    if isinstance(kind, dict):
        return _choices({"type": "string", "oneOf": _titled(kind)})
    if isinstance(kind, list):
        return _form_of_list(kind)
    scalar = kind in (bool, int, float, str) or get_origin(kind) in (Literal, list)
    if scalar or (isinstance(kind, type) and issubclass(kind, Enum)):
        kind = ScalarElicitationType[kind]
    schema = compress_schema(TypeAdapter(kind).json_schema(schema_generator=InlineEnums))
    if get_origin(kind) is ScalarElicitationType and fastmcp_generation() > 3:
        schema = form_schema(schema)  # the class has nothing to tell the user
    _check(schema)
    return Form(schema, kind)


def _form_of_list(given: list[Any]) -> Form:
    inner = given[0] if len(given) == 1 else None
    if isinstance(inner, list) and inner:
        return _choices({"type": "array", "items": {"enum": inner}})
    if isinstance(inner, dict) and inner:
        return _choices({"type": "array", "items": {"anyOf": _titled(inner)}})
    if given and all(isinstance(each, str) for each in given):
        return form_of(Literal[tuple(given)])
    raise ValueError(f"Invalid list response_type format. Received: {given}")


def _choices(schema: dict[str, Any]) -> Form:
    return Form({**ONE_VALUE, "properties": {"value": schema}}, choices=True)


def _titled(choices: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    if not choices:
        raise ValueError("Dict response_type cannot be empty.")
    return [{"const": value, "title": details.get("title", value)} for value, details in choices.items()]


def _check(schema: dict[str, Any]) -> None:
    if schema.get("type") != "object":
        raise TypeError(
            f"Elicitation schema must be an object schema, got type '{schema.get('type')}'. "
            "Elicitation schemas are limited to flat objects with primitive properties only."
        )
    for name, field in schema.get("properties", {}).items():
        options = [*field.get("anyOf", ()), *field.get("oneOf", ())] or [field]
        if not all(_is_simple(each, schema) for each in options if each.get("type") != "null"):
            raise TypeError(
                f"Elicitation schema field '{name}' is neither a primitive type, a choice nor a list of choices. "
                "Elicitation schemas are limited to flat objects with primitive properties only."
            )


def _is_simple(field: dict[str, Any], schema: dict[str, Any]) -> bool:
    if "$ref" in field:
        field = schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2], {})
    if "const" in field or "enum" in field:
        return True
    if field.get("type") == "array":
        items = field.get("items", {})
        return items.get("type") != "object" and "$ref" not in items
    return field.get("type") in SIMPLE
