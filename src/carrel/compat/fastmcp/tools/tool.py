"""Tools. The schemas of a function's tool come from its annotations."""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import pydantic
import pydantic_core
from pydantic import Field, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from carrel.compat.fastmcp.exceptions import ValidationError
from carrel.compat.fastmcp.tools.result import BLOCKS, MEDIA, WRAPPED, Serializer, ToolResult, content_of
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.json_schema import compress_schema, dereference_refs
from carrel.compat.fastmcp.utilities.types import NotSet
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types import Tool as MCPTool
from carrel.compat.mcp.types import ToolAnnotations
from carrel.compat.mcp.types.base import ErrorData

__all__ = ["FunctionTool", "Tool", "ToolResult", "check_unsupported", "decorated", "marked", "tool"]

T = TypeVar("T")
UNSTRUCTURED = (*BLOCKS, *MEDIA, ToolResult, bytes)
MARK = "__fastmcp__"
TIMED_OUT = -32000


@dataclass
class Wrapped(Generic[T]):
    """Structured result that is no object."""

    result: T


class Tool(FastMCPComponent):
    """Tool that clients call. Subclasses have ``run``."""

    kind: ClassVar[str] = "tool"

    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    serializer: Serializer | None = Field(default=None, exclude=True)
    timeout: float | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], **details: Any) -> FunctionTool:
        """Return the tool of a function."""
        return FunctionTool.from_function(fn, **details)

    @classmethod
    def from_tool(cls, tool: Any, **details: Any) -> Any:
        """Raise NotImplementedError: tools are not transformed."""
        raise NotImplementedError(
            "Tool.from_tool is not mirrored by carrel.compat: write a function that calls the other one"
        )

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool with arguments of a client."""
        raise NotImplementedError("Subclasses must implement run()")

    def convert_result(self, value: Any) -> ToolResult:
        """Convert the return value of the tool's function to a result."""
        if isinstance(value, ToolResult):
            return value
        content = content_of(value, self.serializer)
        several = isinstance(value, list | tuple) and any(isinstance(each, BLOCKS) for each in value)
        if self.output_schema is None and (several or isinstance(value, BLOCKS + MEDIA)):
            return ToolResult(content)
        try:
            structured = pydantic_core.to_jsonable_python(value)
        except (pydantic_core.PydanticSerializationError, UnicodeDecodeError):
            return ToolResult(content)
        if self.output_schema is None:
            return ToolResult(content, structured if isinstance(structured, dict) else None)
        if self.output_schema.get(WRAPPED):
            return ToolResult(content, {"result": structured}, {"fastmcp": {"wrap_result": True}})
        return ToolResult(content, structured)

    def to_mcp_tool(self, **changes: Any) -> MCPTool:
        """Return the tool as it is listed."""
        title = self.title or (self.annotations.title if self.annotations is not None else None)
        fields: dict[str, Any] = {
            "name": self.name,
            "title": title,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": self.output_schema,
            "icons": self.icons,
            "annotations": self.annotations,
            "_meta": self.get_meta(),
        }
        return MCPTool(**{**fields, **changes})


class FunctionTool(Tool):
    """Tool of a function."""

    fn: Callable[..., Any] = Field(exclude=True)
    callee: Any = Field(exclude=True)
    run_in_thread: bool = Field(default=True, exclude=True)

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        exclude_args: list[str] | None = None,
        output_schema: Any = NotSet,
        task: Any = None,
        auth: Any = None,
        **details: Any,
    ) -> FunctionTool:
        """Return the tool of a function.

        Raises:
            ValueError: the function has no name or takes ``*args`` or ``**kwargs``, or the output schema has no object.
        """
        for each in inspect.signature(fn).parameters.values():
            if each.kind is each.VAR_POSITIONAL:
                raise ValueError("Functions with *args are not supported as tools")
            if each.kind is each.VAR_KEYWORD:
                raise ValueError("Functions with **kwargs are not supported as tools")
        check_unsupported(task, auth)
        callee = Callee(fn, exclude_args or ())
        if (name or callee.name) == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        schema = output_schema if output_schema is not NotSet else _output_schema(callee)
        if isinstance(schema, dict) and not _is_object(schema):
            raise ValueError(
                f"Output schemas must represent object types due to MCP spec limitations. Received: {schema!r}"
            )
        return cls(
            fn=callee.function,
            callee=callee,
            name=name or callee.name,
            description=description or callee.description,
            parameters=callee.described(compress_schema(callee.schema(), prune_titles=True)),
            output_schema=schema or None,
            **details,
        )

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the function.

        Raises:
            ValidationError: the arguments are not valid.
            McpError: it takes longer than ``timeout``.
        """
        callee: Callee = self.callee
        try:
            given = callee.adapter.validate_python(arguments)
        except pydantic.ValidationError as error:
            raise ValidationError(str(error)) from error
        if self.timeout is None:
            return self.convert_result(await callee.call(given, thread=self.run_in_thread))
        try:
            async with asyncio.timeout(self.timeout):
                return self.convert_result(await callee.call(given, thread=self.run_in_thread))
        except TimeoutError:
            message = f"Tool '{self.name}' execution timed out after {self.timeout}s"
            raise McpError(ErrorData(code=TIMED_OUT, message=message)) from None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.fn(*arguments, **named)


def check_unsupported(task: Any, auth: Any) -> None:
    if task:
        raise NotImplementedError("task is not mirrored by carrel.compat: use carrel.Server and @app.tool(task=...)")
    if auth is not None:
        raise NotImplementedError(
            "auth of components is not mirrored by carrel.compat: use carrel.Server with carrel.security"
        )


def _contains(kind: Any, wanted: tuple[type, ...]) -> bool:
    if get_origin(kind) in (Union, types.UnionType, Annotated, list, tuple, set, dict):
        return any(_contains(each, wanted) for each in get_args(kind))
    return inspect.isclass(kind) and issubclass(kind, wanted)


def _output_schema(callee: Callee) -> dict[str, Any] | None:
    """Return the schema of the structured result by the return annotation; None if it has none."""
    kind = callee.hints.get("return", inspect.Signature.empty)
    if kind in (inspect.Signature.empty, None, type(None), Any, ...) or _contains(kind, UNSTRUCTURED):
        return None
    try:
        schema = TypeAdapter(kind).json_schema(mode="serialization")
        if not _is_object(schema):
            wrapped: Any = Wrapped
            schema = TypeAdapter(wrapped[kind]).json_schema(mode="serialization")
            schema.pop("description", None)  # the docstring of the class
            schema[WRAPPED] = True
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError):
        return None
    return compress_schema(schema, prune_titles=True)


def _is_object(schema: dict[str, Any]) -> bool:
    return "properties" in schema or dereference_refs(schema).get("type") == "object"


def marked(function: Callable[..., Any], kind: str, details: dict[str, Any]) -> Callable[..., Any]:
    """Return a function with a mark that it is to be registered: the kind of component and its details."""
    target = getattr(function, "__func__", function)
    setattr(target, MARK, (kind, details))
    return function


def decorated(function: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the mark of a function; None without one."""
    found: tuple[str, dict[str, Any]] | None = getattr(function, MARK, None)
    return found


def tool(name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
    """Mark the decorated function as a tool, for ``add_tool``."""
    if callable(name_or_fn):
        return marked(name_or_fn, "tool", {"name": name, **details})
    return lambda function: marked(function, "tool", {"name": name_or_fn or name, **details})
