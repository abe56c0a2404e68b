"""Tools. The schemas of a function's tool come from its annotations."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import pydantic
import pydantic_core
from pydantic import BeforeValidator, Field, PydanticSchemaGenerationError, PydanticUserError
from pydantic.errors import PydanticInvalidForJsonSchema

from carrel.compat.fastmcp.apps.prefab import prefab_types, rendering
from carrel.compat.fastmcp.decorators import DecoratedTool, ToolMeta, get_fastmcp_meta, marking
from carrel.compat.fastmcp.exceptions import ValidationError
from carrel.compat.fastmcp.server.providers.addressing import tool_app
from carrel.compat.fastmcp.tools.aliases import output_schema, to_plain
from carrel.compat.fastmcp.tools.result import (
    BLOCKS,
    MEDIA,
    WRAPPED,
    Serializer,
    ToolResult,
    blocks_of_mcp2,
    content_of,
    with_own_blocks,
)
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, read_model
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.json_schema import compress_schema, dereference_refs
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.fastmcp.utilities.types import NotSet
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types import TextContent, ToolAnnotations, ToolExecution
from carrel.compat.mcp.types import Tool as MCPTool
from carrel.compat.mcp.types.base import ErrorData

__all__ = [
    "DecoratedTool",
    "FunctionTool",
    "TextContent",
    "Tool",
    "ToolMeta",
    "ToolResult",
    "default_title",
    "is_object",
    "output_schema_of",
    "tool",
]

T = TypeVar("T")
UNSTRUCTURED = (*BLOCKS, *MEDIA, ToolResult)
ALTERNATIVES = (Union, types.UnionType, Annotated)
TIMED_OUT = -32000


@dataclass
class Wrapped(Generic[T]):
    """Structured result that is no object."""

    result: T


class Tool(FastMCPComponent):
    """Tool that clients call. Subclasses have ``run``."""

    KEY_PREFIX: ClassVar[str] = "tool"
    transformed: ClassVar[Any] = None
    """Class of transformed tools, which derives from this one."""

    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: Annotated[ToolAnnotations | None, BeforeValidator(read_model)] = None
    execution: ToolExecution | None = None
    serializer: Serializer | None = Field(default=None, exclude=True)
    timeout: float | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], **details: Any) -> FunctionTool:
        """Return the tool of a function."""
        return FunctionTool.from_function(fn, **details)

    @classmethod
    def from_tool(cls, tool: Any, **details: Any) -> Any:
        """Return a tool that calls another one, with other details or arguments."""
        return cls.transformed.from_tool(cls.ensure_tool(tool), **details)

    @classmethod
    def ensure_tool(cls, tool: Any) -> Tool:
        """Return a tool, or the tool of a function."""
        return tool if isinstance(tool, Tool) else cls.from_function(tool)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool with arguments of a client."""
        raise NotImplementedError("Subclasses must implement run()")

    def _result_type(self) -> Any:
        return Any

    def convert_result(self, value: Any) -> ToolResult:
        """Convert the return value of the tool's function to a result."""
        if isinstance(value, ToolResult):
            return value
        rendered = rendering(value, tool_app(self))
        if rendered is not None:
            return ToolResult("[Rendered Prefab UI]", rendered)
        value = with_own_blocks(value)
        content = content_of(value, self.serializer)
        several = isinstance(value, list | tuple) and any(isinstance(each, BLOCKS) for each in value)
        if self.output_schema is None and (several or isinstance(value, BLOCKS + MEDIA)):
            return ToolResult(content)
        if isinstance(value, bytes):
            return ToolResult(content)
        try:
            structured = to_plain(value, self._result_type())
        except (pydantic_core.PydanticSerializationError, UnicodeDecodeError):
            return ToolResult(content)
        if self.output_schema is None:
            return ToolResult(content, structured if isinstance(structured, dict) else None)
        if self.output_schema.get(WRAPPED):
            meta = {"fastmcp": {"wrap_result": True}} if fastmcp_generation() > 2 else None
            return ToolResult(content, {"result": structured}, meta)
        return ToolResult(content, structured)

    def to_mcp_tool(self, **changes: Any) -> MCPTool:
        """Return the tool as it is listed."""
        given = changes.get("annotations", self.annotations)
        annotations = ToolAnnotations(**given) if isinstance(given, dict) else given
        name = changes.get("name", self.name)
        title = self.title or (annotations.title if annotations is not None else None)
        if not title and fastmcp_generation() > 3:
            title = default_title(name)
        fields: dict[str, Any] = {
            "name": name,
            "title": title,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": self.output_schema,
            "icons": self.icons,
            "execution": self.execution,
            "_meta": self.get_meta(),
        }
        if self.task_config.supports_tasks() and not self.execution and fastmcp_generation() == 3:
            fields["execution"] = ToolExecution(taskSupport=self.task_config.mode)
        return MCPTool(**{**fields, **changes, "annotations": annotations})

    def get_span_attributes(self) -> dict[str, Any]:
        """Return attributes for traces."""
        own = {"fastmcp.component.type": "tool", "fastmcp.provider.type": "LocalProvider"}
        return super().get_span_attributes() | own


class FunctionTool(Tool):
    """Tool of a function."""

    fn: Callable[..., Any] = Field(exclude=True)
    callee: Any = Field(default=None, exclude=True)
    return_type: Any = Field(default=None, exclude=True)
    run_in_thread: bool = True

    def model_post_init(self, context: Any, /) -> None:
        """Take the function as it was given, if there is no more about it."""
        super().model_post_init(context)
        self.callee = self.callee or Callee(self.fn)

    @classmethod
    def from_function(cls, fn: Callable[..., Any], *, metadata: ToolMeta | None = None, **details: Any) -> FunctionTool:
        """Return the tool of a function.

        Raises:
            TypeError: both ``metadata`` and details are given.
            ValueError: the function has no name or takes ``*args`` or ``**kwargs``, or the output schema has no object.
        """
        given = {key: each for key, each in details.items() if each is not None or key == "output_schema"}
        if metadata is not None and given:
            raise TypeError(
                "Cannot pass both 'metadata' and individual parameters to from_function(). Use one of them."
            )
        mark = metadata if metadata is not None or given else get_fastmcp_meta(fn)
        if not isinstance(mark, ToolMeta):
            mark = ToolMeta(**{key: each for key, each in given.items() if key != "enabled"})
        for each in inspect.signature(fn).parameters.values():
            if each.kind is each.VAR_POSITIONAL:
                raise ValueError("Functions with *args are not supported as tools")
            if each.kind is each.VAR_KEYWORD:
                raise ValueError("Functions with **kwargs are not supported as tools")
        return cls._of_callee(Callee(fn, mark.exclude_args or ()), mark)

    @classmethod
    def _of_callee(cls, callee: Callee, mark: ToolMeta) -> FunctionTool:
        name = mark.name or callee.name
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        if mark.timeout is not None and not mark.run_in_thread and not callee.is_async:
            raise ValueError(
                f"Tool {name!r}: timeout cannot be enforced when run_in_thread=False on a sync function. "
                "Drop the timeout, or let the function run in a thread."
            )
        task = TaskConfig.of(mark.task)
        task.validate_function(callee.function, name)
        schema = mark.output_schema if mark.output_schema is not NotSet else output_schema_of(callee)
        if isinstance(schema, dict) and not is_object(schema):
            raise ValueError(
                f"Output schemas must represent object types due to MCP spec limitations. Received: {schema!r}"
            )
        handled = ("task", "exclude_args", "output_schema", "name", "description")
        details = {key: each for key, each in mark.details.items() if key not in handled}
        if "ui" not in (details.get("meta") or {}) and _contains(callee.hints.get("return"), prefab_types()):
            details["meta"] = {**(details.get("meta") or {}), "ui": True}
        return cls(
            fn=callee.function,
            callee=callee,
            name=name,
            description=callee.description if mark.description is None else mark.description,
            parameters=callee.described(compress_schema(callee.schema(), prune_titles=True)),
            output_schema=schema or None,
            return_type=callee.hints.get("return"),
            task_config=task,
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

    def _result_type(self) -> Any:
        return self.callee.hints.get("return", Any)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.fn(*arguments, **named)


def default_title(name: str) -> str:
    """Return the title that 4.x derives from the name of a tool."""
    return name.replace("_", " ").replace("-", " ").title()


def _contains(kind: Any, wanted: tuple[type, ...], within: tuple[Any, ...] = (list, tuple, set, dict)) -> bool:
    if get_origin(kind) in (*ALTERNATIVES, *within):
        return any(_contains(each, wanted, within) for each in get_args(kind))
    return inspect.isclass(kind) and issubclass(kind, wanted)


def output_schema_of(callee: Callee) -> dict[str, Any] | None:
    """Return the schema of the structured result by the return annotation; None if it has none."""
    kind = _without_questions(callee.hints.get("return", inspect.Signature.empty))
    unstructured = (*UNSTRUCTURED, *prefab_types(), *blocks_of_mcp2())
    if kind in (inspect.Signature.empty, None, type(None), Any, ...) or _contains(kind, unstructured):
        return None
    if _contains(kind, (bytes,), within=()):
        return None
    try:
        schema = output_schema(kind)
        if not is_object(schema):
            wrapped: Any = Wrapped
            schema = output_schema(kind, wrapped)
            schema.pop("description", None)  # the docstring of the class
            if fastmcp_generation() == 2:
                schema["description"] = "Generic wrapper for non-object return types."
            schema[WRAPPED] = True
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError):
        return None
    return compress_schema(schema, prune_titles=True)


def _without_questions(kind: Any) -> Any:
    """Return an annotation without ``InputRequiredResult``, whose requests the client answers before the result."""
    if getattr(kind, "__name__", "") == "InputRequiredResult":
        return None
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    kinds = get_args(kind)
    left = tuple(each for each in kinds if _without_questions(each) is not None or each is type(None))
    return kind if len(left) == len(kinds) else Union[left]  # noqa: UP007


def is_object(schema: dict[str, Any]) -> bool:
    return "properties" in schema or dereference_refs(schema).get("type") == "object"


def tool(name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
    """Mark the decorated function as a tool, for ``add_tool``.

    Raises:
        TypeError: the function is a class method, or there are two names.
    """
    return marking(functools.partial(ToolMeta, **details), name_or_fn, name)
