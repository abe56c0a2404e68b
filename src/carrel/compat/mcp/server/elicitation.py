"""Elicitation with forms that pydantic models describe."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from carrel.compat.mcp.types.base import RequestId

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
]

ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)
SIMPLE = (str, int, float, bool)


class AcceptedElicitation(BaseModel, Generic[ElicitSchemaModelT]):
    """The user has filled in the form."""

    action: Literal["accept"] = "accept"
    data: ElicitSchemaModelT


class AcceptedUrlElicitation(BaseModel):
    """The user goes to the page."""

    action: Literal["accept"] = "accept"


class DeclinedElicitation(BaseModel):
    """The user has declined."""

    action: Literal["decline"] = "decline"


class CancelledElicitation(BaseModel):
    """The user has cancelled."""

    action: Literal["cancel"] = "cancel"


ElicitationResult = AcceptedElicitation[ElicitSchemaModelT] | DeclinedElicitation | CancelledElicitation
UrlElicitationResult = AcceptedUrlElicitation | DeclinedElicitation | CancelledElicitation


def check_form(schema: type[BaseModel]) -> None:
    """Check that a form can have the fields of a model.

    Raises:
        TypeError: one of them is neither simple nor a list of strings.
    """
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if kind is not None and not _is_simple(kind) and not _is_strings(kind):
            raise TypeError(
                f"Elicitation schema field '{name}' must be a primitive type {SIMPLE}, a sequence of strings "
                f"(list[str], etc.), or Optional of these types. Nested models and complex types are not allowed."
            )


def _is_simple(kind: Any) -> bool:
    if kind in SIMPLE or kind is types.NoneType:
        return True
    if get_origin(kind) in (Union, types.UnionType):
        return all(_is_simple(each) or _is_strings(each) for each in get_args(kind))
    return False


def _is_strings(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Sequence) and get_args(kind) == (str,)


async def elicit_with_validation(
    session: Any, message: str, schema: type[ElicitSchemaModelT], related_request_id: RequestId | None = None
) -> Any:
    """Ask the user to fill in the form that a model describes, and return an ``ElicitationResult``.

    Raises:
        TypeError: a form cannot have a field of the model.
        ValidationError: the answer does not fit.
    """
    check_form(schema)
    answer = await session.elicit_form(message, schema.model_json_schema(), related_request_id)
    if answer.action == "accept" and answer.content is not None:
        return AcceptedElicitation(data=schema.model_validate(answer.content))
    return _not_accepted(answer.action)


async def elicit_url(
    session: Any, message: str, url: str, elicitation_id: str, related_request_id: RequestId | None = None
) -> UrlElicitationResult:
    """Ask the user to visit a page."""
    answer = await session.elicit_url(message, url, elicitation_id, related_request_id)
    return AcceptedUrlElicitation() if answer.action == "accept" else _not_accepted(answer.action)


def _not_accepted(action: str) -> DeclinedElicitation | CancelledElicitation:
    if action == "decline":
        return DeclinedElicitation()
    if action == "cancel":
        return CancelledElicitation()
    raise ValueError(f"Unexpected elicitation action: {action}")
