"""Results of tools: structured output by the return annotation, and content for models."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Signature
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pydantic_core
from pydantic import BaseModel, ConfigDict, PydanticUserError, RootModel, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from typing_extensions import is_typeddict

from carrel.compat import mcp
from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.fastmcp.exceptions import InvalidSignature
from carrel.compat.mcp.server.fastmcp.utilities.types import Audio, Image
from carrel.compat.wire import as_block

__all__ = ["Output", "StrictSchema", "content_of", "find_output", "with_inline_root"]

logger = get_logger(__name__)

PLAIN = (str, int, float, bool, bytes, NoneType)
DEFINITIONS = "#/$defs/"
UNSUITABLE = (
    PydanticUserError,
    TypeError,
    ValueError,
    pydantic_core.SchemaError,
    pydantic_core.ValidationError,
)


@dataclass
class Output:
    """Structured output: its model and schema, and whether it is ``{"result": …}``."""

    model: type[BaseModel]
    schema: dict[str, Any]
    wrapped: bool


class StrictSchema(GenerateJsonSchema):
    """Generator of schemas that raises an error for types without a schema."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise ValueError(f"JSON schema warning: {kind} - {detail}")


def find_output(annotation: Any, name: str, *, required: bool) -> Output | None:
    """Return the structured output of a function, or None if its return annotation has no schema.

    Raises:
        InvalidSignature: the output is ``required`` and has no schema, or the annotation is not valid.
    """
    if annotation is Signature.empty and required:
        raise InvalidSignature(f"Function {name}: return annotation required for structured output")
    kind, metadata = annotation, ()
    if get_origin(annotation) is Annotated:
        kind, *rest = get_args(annotation)
        metadata = tuple(rest)
    if get_origin(kind) in (Union, UnionType) and any(_is_result(each) for each in get_args(kind)):
        raise InvalidSignature(
            f"Function {name}: CallToolResult cannot be used in Union or Optional types. "
            "To return empty results, use: CallToolResult(content=[])"
        )
    if _is_result(kind):
        if not metadata:
            return None
        kind = metadata[0]
        annotation = Annotated[(kind, *metadata[1:])] if metadata[1:] else kind
    found = _output_of(annotation, kind, name)
    if found is None and required:
        raise InvalidSignature(f"Function {name}: return type {kind} is not serializable for structured output")
    return found


def _is_result(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, mcp.types.CallToolResult)


def _output_of(annotation: Any, kind: Any, name: str) -> Output | None:
    try:
        model, wrapped = _model_of(annotation, kind, name)
        if model is None:
            return None
        return Output(model, with_inline_root(model.model_json_schema(schema_generator=StrictSchema)), wrapped)
    except UNSUITABLE as error:
        logger.info("Cannot create schema for type %s in %s: %s: %s", kind, name, type(error).__name__, error)
        return None


def _model_of(annotation: Any, kind: Any, name: str) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a return type, and whether it wraps the value."""
    if isinstance(kind, type) and not isinstance(kind, GenericAlias) and kind not in PLAIN:
        if issubclass(kind, BaseModel):
            return kind, False
        hints = get_type_hints(kind)
        if is_typeddict(kind):
            needed = getattr(kind, "__required_keys__", hints)
            fields: dict[str, Any] = {key: hint if key in needed else (hint, None) for key, hint in hints.items()}
            return create_model(kind.__name__, **fields), False
        return (_model_of_class(kind, hints), False) if hints else (None, False)
    if isinstance(kind, GenericAlias) and get_origin(kind) is dict and get_args(kind)[:1] == (str,):
        title = f"{name}DictOutput"
        model: type[BaseModel] = type(title, (RootModel[kind],), {"__module__": __name__})
        return model, False
    return create_model(f"{name}Output", result=annotation), True


def _model_of_class(kind: type, hints: dict[str, Any]) -> type[BaseModel]:
    """Return the model of a class with annotations, such as a dataclass, with its defaults."""
    public = {key: hint for key, hint in hints.items() if not key.startswith("_")}
    fields: dict[str, Any] = {
        key: (hint, getattr(kind, key)) if hasattr(kind, key) else hint for key, hint in public.items()
    }
    model: type[BaseModel] = create_model(kind.__name__, __config__=ConfigDict(from_attributes=True), **fields)
    return model


def with_inline_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is no reference: models that contain themselves have one, and clients want a type."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(DEFINITIONS):
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**schema["$defs"][reference.removeprefix(DEFINITIONS)], **rest}


def content_of(result: Any) -> list[mcp.types.ContentBlock]:
    """Return a result as content blocks: text as it is, lists flattened, everything else as JSON."""
    if result is None:
        return []
    if isinstance(result, mcp.types.ContentBlock):
        return [result]
    if isinstance(result, Image):
        return [result.to_image_content()]
    if isinstance(result, Audio):
        return [result.to_audio_content()]
    if isinstance(result, list | tuple):
        return [block for item in result for block in content_of(item)]
    block = as_block(result, mcp.types.ContentBlock)
    if block is not None:
        return [block]
    if not isinstance(result, str):
        result = pydantic_core.to_json(result, fallback=str, indent=2).decode()
    return [mcp.types.TextContent(type="text", text=result)]
