"""Elicitation with forms that pydantic models describe."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypeAliasType

from carrel.compat.mcp.server.elicitation import (
    AcceptedElicitation,
    AcceptedUrlElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    ElicitSchemaModelT,
    UrlElicitationResult,
)
from carrel.compat.mcp2.types.jsonrpc import RequestId

__all__ = [
    "AcceptedElicitation",
    "AcceptedUrlElicitation",
    "CancelledElicitation",
    "DeclinedElicitation",
    "ElicitSchemaModelT",
    "ElicitationResult",
    "UrlElicitationResult",
    "elicit_url",
    "elicit_with_validation",
    "render_elicitation_schema",
]

ElicitationResult = TypeAliasType(
    "ElicitationResult",
    AcceptedElicitation[ElicitSchemaModelT] | DeclinedElicitation | CancelledElicitation,
    type_params=(ElicitSchemaModelT,),
)

#: Keywords of the schema of a field, by its type.
KEYWORDS: dict[str, frozenset[str]] = {
    "string": frozenset(("minLength", "maxLength", "format", "enum", "enumNames", "oneOf", "const", "pattern")),
    "integer": frozenset(("minimum", "maximum")),
    "number": frozenset(("minimum", "maximum")),
    "boolean": frozenset(),
    "array": frozenset(("minItems", "maxItems", "items")),
}


class FormSchema(GenerateJsonSchema):
    """Generator of schemas of forms: fields that may be None are fields that may be left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return the schema without null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without the default None."""
        found = super().default_schema(schema)
        if found.get("default") is None:
            found.pop("default", None)
        return found


def render_elicitation_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a form.

    Raises:
        TypeError: a form cannot have a field of the model.
    """
    found = schema.model_json_schema(schema_generator=FormSchema)
    for name, field in found.get("properties", {}).items():
        if not _is_allowed(field):
            raise TypeError(
                f"Elicitation schema field {name!r} rendered as {field!r}, "
                f"which is not a valid PrimitiveSchemaDefinition"
            )
    return found


def _is_allowed(field: dict[str, Any]) -> bool:
    """Return whether a field is a text, a number, a boolean, a choice, or several choices."""
    kind = field.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        return False
    if kind == "array":
        items = field.get("items", {})
        return "enum" in items or "anyOf" in items or "oneOf" in items
    return True


async def elicit_with_validation(
    session: Any, message: str, schema: type[ElicitSchemaModelT], related_request_id: RequestId | None = None
) -> Any:
    """Ask the user to fill in the form that a model describes, and return an ``ElicitationResult``.

    Raises:
        TypeError: a form cannot have a field of the model.
        ValueError: the answer does not fit.
    """
    rendered = render_elicitation_schema(schema)
    answer = await session.elicit_form(
        message=message, requested_schema=rendered, related_request_id=related_request_id
    )
    if answer.action != "accept":
        return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation()
    if answer.content is None:
        raise ValueError("Received an accepted elicitation with no content")
    try:
        return AcceptedElicitation(data=schema.model_validate(answer.content))
    except ValidationError as error:
        raise ValueError(
            "Received an accepted elicitation whose content does not match the requested schema"
        ) from error


async def elicit_url(
    session: Any, message: str, url: str, elicitation_id: str, related_request_id: RequestId | None = None
) -> UrlElicitationResult:
    """Ask the user to visit a page."""
    answer = await session.elicit_url(
        message=message, url=url, elicitation_id=elicitation_id, related_request_id=related_request_id
    )
    if answer.action == "accept":
        return AcceptedUrlElicitation()
    return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation()
