"""Functions as tools: a model of their arguments, and of their structured result."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from carrel.compat import mcp
from carrel.compat.mcp.server.fastmcp.exceptions import InvalidSignature
from carrel.compat.mcp.server.fastmcp.utilities.output import Output, content_of, find_output

__all__ = ["ArgModelBase", "FuncMetadata", "field_of", "func_metadata"]


class ArgModelBase(BaseModel):
    """Arguments of a function."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_dump_one_level(self) -> dict[str, Any]:
        """Return the arguments by name, with models as they are."""
        fields = type(self).model_fields.items()
        return {field.alias or name: getattr(self, name) for name, field in fields}


@dataclass
class FuncMetadata:
    """Models of the arguments and the result of a function."""

    arg_model: type[ArgModelBase]
    output: Output | None = None

    def __post_init__(self) -> None:
        fields = self.arg_model.model_fields.items()
        #: Arguments that may come as JSON in a string, as some clients send them.
        self._parsed = {key for name, field in fields if field.annotation is not str for key in (name, field.alias)}

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the structured result; None without one."""
        return None if self.output is None else self.output.schema

    @property
    def output_model(self) -> type[BaseModel] | None:
        """Model of the structured result; None without one."""
        return None if self.output is None else self.output.model

    @property
    def wrap_output(self) -> bool:
        """Whether the structured result is ``{"result": …}``."""
        return self.output is not None and self.output.wrapped

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with lists, objects, booleans and null parsed where they are JSON in a string."""
        found = dict(data)
        for key, value in data.items():
            if isinstance(value, str) and key in self._parsed:
                try:
                    parsed = json.loads(value)
                except json.JSONDecodeError:
                    continue
                if not isinstance(parsed, str | int | float):  # a text or number may be meant as it is
                    found[key] = parsed
        return found

    async def call_fn_with_arg_validation(
        self,
        fn: Callable[..., Any],
        fn_is_async: bool,
        arguments_to_validate: dict[str, Any],
        arguments_to_pass_directly: dict[str, Any] | None,
    ) -> Any:
        """Call a function with valid arguments, and with others that are not looked at.

        Raises:
            ValidationError: the arguments are not valid.
        """
        model = self.arg_model.model_validate(self.pre_parse_json(arguments_to_validate))
        arguments = model.model_dump_one_level() | (arguments_to_pass_directly or {})
        result = fn(**arguments)
        return await result if fn_is_async else result

    def convert_result(self, result: Any) -> Any:
        """Return the content of a result, and where there is a schema also the structured content."""
        if isinstance(result, mcp.types.CallToolResult):
            if self.output is not None:
                self.output.model.model_validate(result.structuredContent)
            return result
        content = content_of(result)
        if self.output is None:
            return content
        valid = self.output.model.model_validate({"result": result} if self.output.wrapped else result)
        return content, valid.model_dump(mode="json", by_alias=True)


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
    model: type[ArgModelBase] = create_model(f"{name}Arguments", __base__=ArgModelBase, **fields)
    if structured_output is False:
        return FuncMetadata(model)
    return FuncMetadata(model, find_output(signature.return_annotation, name, required=structured_output is True))


def field_of(parameter: inspect.Parameter) -> tuple[str, Any]:
    """Return the name and annotated type of the field of a parameter."""
    empty = parameter.annotation is inspect.Parameter.empty
    annotation = Any if empty else parameter.annotation
    metadata: list[Any] = [WithJsonSchema({"title": parameter.name, "type": "string"})] if empty else []
    if callable(getattr(BaseModel, parameter.name, None)):  # pydantic has a method of this name
        metadata.append(Field(alias=parameter.name))
        return f"field_{parameter.name}", Annotated[(annotation, *metadata)]
    return parameter.name, Annotated[(annotation, *metadata, Field())]
