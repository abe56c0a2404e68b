"""Transformed tools: tools that call another one, with other names, descriptions, defaults or arguments."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Literal

import pydantic_core
from pydantic import BeforeValidator, Field

from carrel.compat.fastmcp.tools.aliases import to_plain
from carrel.compat.fastmcp.tools.arguments import ArgTransform, Arguments
from carrel.compat.fastmcp.tools.result import WRAPPED, ToolResult, content_of
from carrel.compat.fastmcp.tools.tool import Tool, output_schema_of
from carrel.compat.fastmcp.utilities.components import read_set, read_version, with_visibility
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.fastmcp.utilities.types import FastMCPBaseModel, NotSet

__all__ = [
    "ArgTransform",
    "ArgTransformConfig",
    "ToolTransformConfig",
    "TransformedTool",
    "apply_transformations_to_tools",
    "forward",
    "forward_raw",
]

_current: ContextVar[TransformedTool | None] = ContextVar("_current_tool", default=None)


def _running(name: str) -> TransformedTool:
    found = _current.get()
    if found is None:
        raise RuntimeError(f"{name}() can only be called within a transformed tool")
    return found


async def forward(**arguments: Any) -> ToolResult:
    """Call the tool that the running one transforms, with arguments under their new names.

    Raises:
        RuntimeError: no transformed tool is running.
        TypeError: an argument is missing or unknown.
    """
    found: ToolResult = await _running("forward").forwarding_fn(**arguments)
    return found


async def forward_raw(**arguments: Any) -> ToolResult:
    """Call the tool that the running one transforms, with arguments under their own names.

    Raises:
        RuntimeError: no transformed tool is running.
    """
    return await _running("forward_raw").parent_tool.run(arguments)


class TransformedTool(Tool):
    """Tool that calls ``parent_tool``, or a function that may do so with ``forward``."""

    parent_tool: Tool = Field(exclude=True)
    fn: Callable[..., Any] = Field(exclude=True)
    forwarding_fn: Callable[..., Any] = Field(exclude=True)
    transform_args: dict[str, ArgTransform] = Field(default_factory=dict, exclude=True)

    @classmethod
    def from_tool(
        cls,
        tool: Any,
        name: str | None = None,
        *,
        transform_fn: Callable[..., Any] | None = None,
        transform_args: dict[str, ArgTransform] | None = None,
        output_schema: Any = NotSet,
        tags: set[str] | None = None,
        **details: Any,
    ) -> TransformedTool:
        """Return a tool that calls another one.

        Raises:
            ValueError: an argument is unknown, has the name of another one, or is hidden without a default.
        """
        parent = cls.ensure_tool(tool)
        changes = transform_args or {}
        arguments = Arguments(parent.name, parent.parameters, changes)

        async def call_parent(**given: Any) -> ToolResult:
            return await parent.run(arguments.original(given))

        callee = None if transform_fn is None else Callee(transform_fn)
        schema = arguments.schema if callee is None else _schema_of_function(callee, arguments.schema)
        arguments.check_names()
        if output_schema is NotSet:
            output_schema = parent.output_schema
            if callee is not None and callee.hints.get("return") is not None:
                own = output_schema_of(callee)
                output_schema = None if _returns_result(callee) else own or output_schema
        kept = ("title", "version", "description", "meta", "annotations", "serializer")
        values = {key: getattr(parent, key) for key in kept}
        values.update({key: each for key, each in details.items() if each is not NotSet})
        return cls(
            fn=transform_fn or call_parent,
            forwarding_fn=call_parent,
            parent_tool=parent,
            name=name or parent.name,
            parameters=schema,
            output_schema=output_schema or None,
            tags=tags or parent.tags,
            transform_args=changes,
            auth=parent.auth,
            icons=values.pop("icons", parent.icons),
            **values,
        )

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the function, or the other tool."""
        given = {
            key: field["default"]
            for key, field in self.parameters.get("properties", {}).items()
            if isinstance(field, dict) and "default" in field
        }
        given.update(arguments)
        token = _current.set(self)
        try:
            if inspect.iscoroutinefunction(self.fn):
                found = await self.fn(**given)
            else:
                found = await Callee(self.fn).call(given)
        finally:
            _current.reset(token)
        return self._result_of(found)

    def _result_of(self, value: Any) -> ToolResult:
        schema = self.output_schema
        if isinstance(value, ToolResult):
            if schema is not None and schema.get("type") != "object" and not schema.get(WRAPPED):
                return ToolResult(value.content, None)
            return value
        content = content_of(value, self.serializer)
        if schema is not None and schema.get(WRAPPED):
            return ToolResult(content, {"result": to_plain(value)})
        try:
            structured = to_plain(value)
        except pydantic_core.PydanticSerializationError:
            return ToolResult(content)
        return ToolResult(content, structured if schema is not None or isinstance(structured, dict) else None)


Tool.transformed = TransformedTool


def _returns_result(callee: Callee) -> bool:
    kind = callee.hints.get("return")
    return inspect.isclass(kind) and issubclass(kind, ToolResult)


def _schema_of_function(callee: Callee, transformed: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a function that replaces a tool: its own parameters, with the details of the tool's.

    Raises:
        ValueError: the function lacks a parameter of the tool.
    """
    variadic = next((name for name, each in callee.parameters.items() if each.kind is each.VAR_KEYWORD), None)
    if variadic is not None:
        callee.parameters.pop(variadic)
    own = compress_schema(callee.schema(), prune_titles=True)
    fields, inherited = own.get("properties", {}), transformed.get("properties", {})
    missing = inherited.keys() - fields.keys()
    if missing and variadic is None:
        raise ValueError(
            f"Function missing parameters required after transformation: {', '.join(sorted(missing))}. "
            f"Function declares: {', '.join(sorted(fields))}"
        )
    names = {**fields, **inherited}
    merged = {name: {**fields.get(name, {}), **inherited.get(name, {})} for name in names}
    required = {*own.get("required", ()), *transformed.get("required", ())}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": merged,
        "required": [name for name in merged if name in required and "default" not in merged[name]],
        "additionalProperties": False,
    }
    definitions = copy.deepcopy({**own.get("$defs", {}), **transformed.get("$defs", {})})
    return compress_schema({**schema, "$defs": definitions})


class ArgTransformConfig(FastMCPBaseModel):
    """Changes of an argument, in a configuration."""

    name: str | None = None
    description: str | None = None
    default: str | int | float | bool | None = None
    hide: bool = False
    required: Literal[True] | None = None
    examples: Any | None = None

    def to_arg_transform(self) -> ArgTransform:
        """Return the changes that are given."""
        return ArgTransform(**self.model_dump(exclude_unset=True))


class ToolTransformConfig(FastMCPBaseModel):
    """Changes of a tool, in a configuration."""

    name: str | None = None
    version: Annotated[str | None, BeforeValidator(read_version)] = None
    title: str | None = None
    description: str | None = None
    tags: Annotated[set[str], BeforeValidator(read_set)] = Field(default_factory=set)
    meta: dict[str, Any] | None = None
    enabled: bool = True
    arguments: dict[str, ArgTransformConfig] = Field(default_factory=dict)

    def apply(self, tool: Tool) -> TransformedTool:
        """Return a tool with the changes."""
        changes = self.model_dump(exclude_unset=True, exclude={"arguments", "enabled"})
        arguments = {name: each.to_arg_transform() for name, each in self.arguments.items()}
        found = TransformedTool.from_tool(tool, transform_args=arguments, **changes)
        if "enabled" in self.model_fields_set:
            found.meta = with_visibility(found.meta, self.enabled)
        return found


def apply_transformations_to_tools(
    tools: dict[str, Tool], transformations: dict[str, ToolTransformConfig]
) -> dict[str, Tool]:
    """Return tools by key, with the changes of some of them."""
    found: dict[str, Tool] = {}
    for key, tool in tools.items():
        change = transformations.get(tool.name)
        applied = tool if change is None else change.apply(tool)
        found[key if change is None else applied.key] = applied
    return found
