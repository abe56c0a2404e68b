"""Functions as tools: a model of their arguments, and the type of their structured result."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic_core
from pydantic import BaseModel, ConfigDict, PrivateAttr, PydanticUserError, TypeAdapter, WithJsonSchema
from pydantic import create_model as create
from typing_inspection.introspection import AnnotationSource, ForbiddenQualifier, inspect_annotation, is_union_origin

from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.fastmcp.utilities.func_metadata import ArgModelBase, field_of
from carrel.compat.mcp.server.fastmcp.utilities.output import StrictSchema, with_inline_root
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.mcpserver.exceptions import InvalidSignature
from carrel.compat.mcp2.server.mcpserver.utilities.functions import call_function
from carrel.compat.mcp2.server.mcpserver.utilities.output_types import output_type, readable_typeddict
from carrel.compat.mcp2.server.mcpserver.utilities.types import Audio, Image
from carrel.compat.mcp2.types.base import InputRequired
from carrel.compat.wire import as_block

__all__ = ["ArgModelBase", "FuncMetadata", "func_metadata"]

logger = get_logger(__name__)

CONTENT = (*get_args(types.ContentBlock), Image, Audio)
SEQUENCES = (list, tuple, Sequence)
UNSUITABLE = (
    PydanticUserError,
    ForbiddenQualifier,
    NameError,
    TypeError,
    ValueError,
    pydantic_core.SchemaError,
    pydantic_core.ValidationError,
)


class FuncMetadata(BaseModel):
    """Model of the arguments of a function, and the type and schema of its structured result."""

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True)

    arg_model: Annotated[type[ArgModelBase], WithJsonSchema(None)]
    output_schema: dict[str, Any] | None = None
    output_model: Annotated[Any, WithJsonSchema(None)] = None
    wrap_output: bool = False
    _parsed: frozenset[str] = PrivateAttr(default=frozenset())
    _known: tuple[Any, TypeAdapter[Any]] | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Make the schema of the result, and find the arguments that may be JSON in a string."""
        self._parsed = frozenset(
            key
            for name, field in self.arg_model.model_fields.items()
            for key in (name, field.alias)
            if key and field.annotation is not str
        )
        if self.output_model is not None and self.output_schema is None:
            schema = self._adapter(self.output_model).json_schema(schema_generator=StrictSchema)
            self.output_schema = with_inline_root(schema)

    def _adapter(self, kind: Any) -> TypeAdapter[Any]:
        if self._known is None or self._known[0] is not kind:
            self._known = (kind, TypeAdapter(readable_typeddict(kind)))
        return self._known[1]

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with lists, objects, booleans and null parsed where they are JSON in a string."""
        found = dict(data)
        for key, value in data.items():
            if not isinstance(value, str) or key not in self._parsed:
                continue
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                continue
            if not isinstance(parsed, str | int | float):  # a text or number may be meant as it is
                found[key] = parsed
        return found

    def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
        """Return valid arguments by name, with models as they are.

        Raises:
            ValidationError: they are not valid.
        """
        return self.arg_model.model_validate(self.pre_parse_json(arguments_to_validate)).model_dump_one_level()

    async def call_fn(
        self,
        fn: Callable[..., Any],
        fn_is_async: bool,
        arguments: dict[str, Any],
        arguments_to_pass_directly: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function with valid arguments. One without ``async`` runs in a thread."""
        given = arguments | (arguments_to_pass_directly or {})
        return await fn(**given) if fn_is_async else await call_function(fn, given)

    async def call_fn_with_arg_validation(
        self,
        fn: Callable[..., Any],
        fn_is_async: bool,
        arguments_to_validate: dict[str, Any],
        arguments_to_pass_directly: dict[str, Any] | None,
        pre_validated: dict[str, Any] | None = None,
    ) -> Any:
        """Validate arguments, and call a function with them."""
        valid = self.validate_arguments(arguments_to_validate) if pre_validated is None else pre_validated
        return await self.call_fn(fn, fn_is_async, valid, arguments_to_pass_directly)

    def convert_result(self, result: Any) -> Any:
        """Return the result of a tool: content, and structured content if there is a type for it."""
        if isinstance(result, InputRequired):
            return result
        kind = None if self.output_schema is None else self.output_model
        if isinstance(result, types.CallToolResult):
            if kind is not None and not result.is_error:
                self._adapter(kind).validate_python(result.structured_content)
            return result
        content = content_of(result)
        if kind is None:
            return types.CallToolResult(content=content)
        adapter = self._adapter(kind)
        whole = {"result": result} if self.wrap_output else result
        valid = adapter.validate_python(whole, by_alias=True, by_name=True)
        if isinstance(valid, BaseModel):
            structured: Any = valid.model_dump(mode="json", by_alias=True)
        else:
            structured = adapter.dump_python(valid, mode="json", by_alias=True)
        return types.CallToolResult(content=content, structured_content=structured)


def content_of(result: Any) -> list[Any]:
    """Return a result as content blocks: text as it is, lists flattened, everything else as JSON."""
    if result is None:
        return []
    if isinstance(result, types.ContentBlock):
        return [result]
    if isinstance(result, Image):
        return [result.to_image_content()]
    if isinstance(result, Audio):
        return [result.to_audio_content()]
    if isinstance(result, list | tuple):
        return [block for item in result for block in content_of(item)]
    block = as_block(result, types.ContentBlock)
    if block is not None:
        return [block]
    if not isinstance(result, str):
        result = pydantic_core.to_json(result, fallback=str, indent=2).decode()
    return [types.TextContent(text=result)]


def func_metadata(
    func: Callable[..., Any], skip_names: Sequence[str] = (), structured_output: bool | None = None
) -> FuncMetadata:
    """Return the models of a function, without the parameters in ``skip_names``.

    With ``structured_output`` None, there is structured output if the return annotation allows it.

    Raises:
        InvalidSignature: an annotation cannot be used.
    """
    name = getattr(func, "__name__", type(func).__name__)
    try:
        signature = inspect.signature(func, eval_str=True)
    except NameError as error:
        raise InvalidSignature(f"Unable to evaluate type annotations for callable {name!r}") from error
    fields: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.name.startswith("_"):
            raise InvalidSignature(f"Parameter {parameter.name} of {name} cannot start with '_'")
        if parameter.name not in skip_names:
            key, kind = field_of(parameter)
            fields[key] = kind if parameter.default is inspect.Parameter.empty else (kind, parameter.default)
    arguments: type[ArgModelBase] = create(f"{name}Arguments", __base__=ArgModelBase, **fields)
    if structured_output is False:
        return FuncMetadata(arg_model=arguments)
    if signature.return_annotation is inspect.Parameter.empty and structured_output is True:
        raise InvalidSignature(f"Function {name}: return annotation required for structured output")
    found = _declared(signature.return_annotation, name)
    if found is None:
        return FuncMetadata(arg_model=arguments)
    annotation, bare = found
    if structured_output is None and returns_content(bare):
        return FuncMetadata(arg_model=arguments)
    kind, wrapped = output_type(annotation, bare, name)
    if kind is not None:
        try:
            return FuncMetadata(arg_model=arguments, output_model=kind, wrap_output=wrapped)
        except UNSUITABLE as error:
            logger.info("Cannot create schema for type %s in %s: %s: %s", bare, name, type(error).__name__, error)
    if structured_output is True:
        raise InvalidSignature(f"Function {name}: return type {bare} is not serializable for structured output")
    return FuncMetadata(arg_model=arguments)


def _declared(annotation: Any, name: str) -> tuple[Any, Any] | None:
    """Return the type of the structured result as it is annotated, and without metadata; None without one.

    Raises:
        InvalidSignature: the annotation has a qualifier, or ``CallToolResult`` in a union.
    """
    try:
        inspected = inspect_annotation(annotation, annotation_source=AnnotationSource.FUNCTION)
    except ForbiddenQualifier as error:
        raise InvalidSignature(f"Function {name}: return annotation contains an invalid type qualifier") from error
    kind: Any = inspected.type
    if _is(kind, InputRequired):
        return None
    if is_union_origin(get_origin(kind)):
        every = get_args(kind)
        left = tuple(each for each in every if not _is(each, InputRequired))
        if not left:
            return None
        if len(left) != len(every):
            annotation = left[0] if len(left) == 1 else Union[left]  # noqa: UP007 - of a tuple
            inspected = inspect_annotation(annotation, annotation_source=AnnotationSource.FUNCTION)
            kind = inspected.type
        if len(left) > 1 and any(_is(each, types.CallToolResult) for each in left):
            raise InvalidSignature(
                f"Function {name}: CallToolResult cannot be used in Union or Optional types. "
                "To return empty results, use: CallToolResult(content=[])"
            )
    if not _is(kind, types.CallToolResult):
        return annotation, kind
    if not inspected.metadata:
        return None
    kind, *more = inspected.metadata
    return (Annotated[(kind, *more)] if more else kind), kind


def _is(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def returns_content(annotation: Any) -> bool:
    """Return whether a type is content, or a list or union of content."""
    origin = get_origin(annotation)
    if origin is None:
        return isinstance(annotation, type) and issubclass(annotation, CONTENT)
    if origin is Annotated:
        return returns_content(get_args(annotation)[0])
    return (is_union_origin(origin) or origin in SEQUENCES) and any(map(returns_content, get_args(annotation)))
