"""Names of the fields in results of tools and in output schemas: aliases, or names of attributes.

A model with ``serialize_by_alias`` in its configuration decides. For other models, FastMCP 4 writes the names of
attributes, and FastMCP 3 aliases. FastMCP 4 asks each model, and FastMCP 3 only the model that is the result itself.
"""

from __future__ import annotations

import inspect
import types
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic_core
from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from carrel.compat.generation import fastmcp_generation

__all__ = ["output_schema", "to_json", "to_plain"]

ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class NamesOfEachModel(GenerateJsonSchema):
    """Generator of schemas that asks each model and dataclass whether it writes aliases."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model."""
        before, self.by_alias = self.by_alias, bool(schema["cls"].model_config.get("serialize_by_alias"))
        try:
            return super().model_schema(schema)
        finally:
            self.by_alias = before

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Return the schema of a dataclass."""
        before, self.by_alias = self.by_alias, bool(schema.get("config", {}).get("serialize_by_alias"))
        try:
            return super().dataclass_schema(schema)
        finally:
            self.by_alias = before


def _writes_aliases(kind: Any) -> bool:
    """Return whether the results of a type have aliases in FastMCP 3; of a union, its first model decides."""
    if get_origin(kind) is Annotated:
        return _writes_aliases(get_args(kind)[0])
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for each in kinds:
        if inspect.isclass(each) and issubclass(each, BaseModel):
            return each.model_config.get("serialize_by_alias") is not False
    return True


def output_schema(kind: Any, wrapper: Any = None) -> dict[str, Any]:
    """Return the schema of results of a type, which are in a field of a generic ``wrapper`` if there is one."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind if wrapper is None else wrapper[kind])
    if fastmcp_generation() > 3:
        return adapter.json_schema(mode="serialization", by_alias=False, schema_generator=NamesOfEachModel)
    return adapter.json_schema(mode="serialization", by_alias=_writes_aliases(kind))


def to_json(value: Any) -> str:
    """Return a value as JSON. What has no JSON becomes text."""
    if fastmcp_generation() > 3:
        return ANYTHING.dump_json(value, fallback=str).decode()
    return pydantic_core.to_json(value, fallback=str, by_alias=_writes_aliases(type(value))).decode()


def to_plain(value: Any, kind: Any = Any) -> Any:
    """Return a value as values of JSON; in FastMCP 4 with the fields of the type that its function returns.

    Raises:
        pydantic_core.PydanticSerializationError: it has no JSON.
        UnicodeDecodeError: it has bytes that are not UTF-8.
    """
    if fastmcp_generation() < 4:
        return pydantic_core.to_jsonable_python(value, by_alias=_writes_aliases(type(value)))
    if kind in (inspect.Signature.empty, None, Any, ...) or isinstance(kind, str):
        return ANYTHING.dump_python(value, mode="json")
    try:
        adapter = _adapter(kind)
    except TypeError:  # an annotation with metadata that has no hash
        adapter = _adapter.__wrapped__(kind)
    return adapter.dump_python(value, mode="json")


@lru_cache(maxsize=1024)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the serializer of a type, which takes longer to make than a call of a tool."""
    try:
        return TypeAdapter(kind)
    except PydanticUserError:
        return ANYTHING
