"""Tools that the model of a client may call while it answers a sampling request of a server."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from carrel.compat.fastmcp.exceptions import AuthorizationError
from carrel.compat.fastmcp.server.auth.access import is_authorized
from carrel.compat.fastmcp.tools.result import WRAPPED, ToolResult
from carrel.compat.fastmcp.tools.tool import FunctionTool, Tool
from carrel.compat.mcp import types

__all__ = ["FINAL_RESPONSE", "SamplingTool", "final_response_tool", "tools_of"]

#: Tool that the model calls with a structured result.
FINAL_RESPONSE = "final_response"


class SamplingTool(BaseModel):
    """Tool of a sampling request. If one tool is ``sequential``, all calls of a message run one after the other."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    description: str | None = None
    parameters: dict[str, Any]
    fn: Callable[..., Any]
    sequential: bool = False

    async def run(self, arguments: dict[str, Any] | None = None) -> Any:
        """Call the function."""
        result = self.fn(**(arguments or {}))
        return await result if inspect.isawaitable(result) else result

    def _to_sdk_tool(self) -> types.Tool:
        return types.Tool(name=self.name, description=self.description, inputSchema=self.parameters)

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        sequential: bool = False,
    ) -> SamplingTool:
        """Return the tool of a function, whose parameters and docstring describe it.

        Raises:
            ValueError: the function has no name, or takes ``*args`` or ``**kwargs``.
        """
        tool = FunctionTool.from_function(fn, name=name, description=description, output_schema=None)
        return cls(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            fn=tool.fn,
            sequential=sequential,
        )

    @classmethod
    def from_callable_tool(cls, tool: Any, *, name: str | None = None, description: str | None = None) -> SamplingTool:
        """Return the tool of a tool of a server, which is called with its own transformations and checks.

        Raises:
            TypeError: the value is no such tool.
        """
        if not isinstance(tool, Tool):
            raise TypeError(
                f"Expected FunctionTool or TransformedTool, got {type(tool).__name__}. "
                "Only callable tools can be converted to SamplingTools."
            )

        async def call(**arguments: Any) -> Any:
            if not await is_authorized(tool):
                raise AuthorizationError(f"Authorization failed for tool '{tool.name}': insufficient permissions")
            return _value_of(tool, await tool.run(arguments))

        return cls(
            name=name or tool.name, description=description or tool.description, parameters=tool.parameters, fn=call
        )


def _value_of(tool: Tool, result: ToolResult) -> Any:
    """Return the value in a result: structured content, or the first text."""
    if result.structured_content is not None:
        wrapped = tool.output_schema is not None and tool.output_schema.get(WRAPPED)
        return result.structured_content.get("result") if wrapped else result.structured_content
    first = next(iter(result.content), None)
    return first.text if isinstance(first, types.TextContent) else result


def tools_of(given: Sequence[Any] | None) -> list[SamplingTool]:
    """Return the sampling tools of functions, and of tools of a server.

    Raises:
        TypeError: a value is neither.
    """
    found = []
    for each in given or ():
        if isinstance(each, SamplingTool):
            found.append(each)
        elif isinstance(each, Tool):
            found.append(SamplingTool.from_callable_tool(each))
        elif callable(each):
            found.append(SamplingTool.from_function(each))
        else:
            raise TypeError(f"Expected SamplingTool, FunctionTool, TransformedTool, or callable, got {type(each)}")
    return found


def final_response_tool(schema: dict[str, Any]) -> SamplingTool:
    """Return the tool that the model calls with a result of a schema; a value that is no object is in ``value``."""
    if schema.get("type") != "object":
        schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    return SamplingTool(
        name=FINAL_RESPONSE,
        description="Return the final result. Call it once, when the task is done.",
        parameters=schema,
        fn=dict,
    )
