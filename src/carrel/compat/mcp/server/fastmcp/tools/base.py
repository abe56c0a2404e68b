"""Tool: a function that clients call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from carrel.compat.mcp.server.fastmcp.context import find_context_parameter
from carrel.compat.mcp.server.fastmcp.exceptions import ToolError
from carrel.compat.mcp.server.fastmcp.utilities.func_metadata import FuncMetadata, func_metadata
from carrel.compat.mcp.shared.exceptions import UrlElicitationRequiredError
from carrel.compat.mcp.types import ToolAnnotations
from carrel.compat.mcp.types.base import Icon

__all__ = ["Tool"]


class Tool(BaseModel):
    """Function that clients call, with its description and schemas."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fn: Callable[..., Any] = Field(exclude=True)
    name: str
    title: str | None = None
    description: str
    parameters: dict[str, Any]
    fn_metadata: FuncMetadata = Field(exclude=True)
    is_async: bool
    context_kwarg: str | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = None

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the structured result; None without one."""
        return self.fn_metadata.output_schema

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        context_kwarg: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Tool:
        """Return the tool of a function.

        Raises:
            ValueError: it has no name.
            InvalidSignature: its annotations cannot be used.
        """
        named = name or fn.__name__
        if named == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        parameter = context_kwarg or find_context_parameter(fn)
        metadata = func_metadata(fn, () if parameter is None else (parameter,), structured_output)
        return cls(
            fn=fn,
            name=named,
            title=title,
            description=description or fn.__doc__ or "",
            parameters=metadata.arg_model.model_json_schema(by_alias=True),
            fn_metadata=metadata,
            is_async=_is_async(fn),
            context_kwarg=parameter,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )

    async def run(self, arguments: dict[str, Any], context: Any = None, convert_result: bool = False) -> Any:
        """Call the function with arguments of a client.

        Raises:
            ToolError: the arguments are not valid, or it failed.
        """
        direct = None if self.context_kwarg is None else {self.context_kwarg: context}
        try:
            result = await self.fn_metadata.call_fn_with_arg_validation(self.fn, self.is_async, arguments, direct)
            return self.fn_metadata.convert_result(result) if convert_result else result
        except UrlElicitationRequiredError:
            raise
        except Exception as error:
            raise ToolError(f"Error executing tool {self.name}: {error}") from error


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
