"""Conversion between the models of the face of ``mcp`` and the wire structs of Carrel."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec
from pydantic import BaseModel

from carrel.wire.base import Wire
from carrel.wire.resources import read_contents

__all__ = ["as_block", "as_model", "form_schema", "json_of", "model_of", "struct_of"]

M = TypeVar("M", bound=BaseModel)
S = TypeVar("S", bound=Wire)


def as_block(value: Any, union: Any) -> Any:
    """Return the content block of a union that a block of another generation stands for; None for other values."""
    if not isinstance(value, BaseModel):
        return None
    kinds = {kind.__name__: kind for kind in get_args(union)}
    kind = kinds.get(type(value).__name__)
    if kind is None or getattr(value, "type", None) is None:
        return None
    return kind.model_validate_json(json_of(value))


def as_model(value: Any, kind: type[M]) -> Any:
    """Return the model of this generation that a model of another one stands for; other values as they are."""
    if isinstance(value, BaseModel) and not isinstance(value, kind) and type(value).__name__ == kind.__name__:
        return kind.model_validate_json(json_of(value))
    return value


def form_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the members that the protocol defines for the schema of a form."""
    return {key: each for key, each in schema.items() if key in ("$schema", "properties", "required", "type")}


def json_of(model: BaseModel) -> bytes:
    """Return a model as JSON, without members that are None."""
    return model.model_dump_json(by_alias=True, exclude_none=True).encode()


def model_of(struct: Wire, kind: type[M]) -> M:
    """Return the model of a struct."""
    return kind.model_validate_json(msgspec.json.encode(struct))


def struct_of(model: BaseModel | bytes, kind: type[S]) -> S:
    """Return the struct of a model, or of its JSON."""
    data = model if isinstance(model, bytes) else json_of(model)
    return msgspec.json.decode(data, type=kind, dec_hook=read_contents)
