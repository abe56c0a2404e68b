"""Tools: functions that a model calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carrel.compat.mcp.shared.tool_name_validation import validate_and_warn_tool_name
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.mcpserver.exceptions import (
    InvalidSignature,
    ResourceError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from carrel.compat.mcp2.server.mcpserver.resolve import (
    build_resolver_plans,
    find_resolved_parameters,
    resolve_arguments,
    returns_input_required,
)
from carrel.compat.mcp2.server.mcpserver.utilities.context_injection import find_context_parameter
from carrel.compat.mcp2.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from carrel.compat.mcp2.server.mcpserver.utilities.functions import is_async_callable, name_of
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.inbound import find_invalid_x_mcp_header
from carrel.compat.mcp2.types.base import InputRequired

if TYPE_CHECKING:
    from carrel.compat.mcp2.server.mcpserver.context import Context

__all__ = ["Tool"]

#: For pydantic, which reads annotations at run time.
ToolAnnotations: Any = types.ToolAnnotations
Icon: Any = types.Icon
BOTH = (
    "a call has one input_required channel, so the multi-round flow is driven "
    "either by resolvers or by the tool body, not both"
)


class Tool(BaseModel):
    """Tool of a server."""

    model_config = ConfigDict(defer_build=True)

    fn: Callable[..., Any] = Field(exclude=True)
    name: str
    title: str | None = None
    description: str
    parameters: dict[str, Any]
    fn_metadata: FuncMetadata
    is_async: bool
    context_kwarg: str | None = None
    resolved_params: dict[str, Any] = Field(default_factory=dict, exclude=True)
    resolver_plans: dict[Hashable, Any] = Field(default_factory=dict, exclude=True)
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = None

    @cached_property
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
        annotations: types.ToolAnnotations | None = None,
        icons: list[types.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Tool:
        """Return the tool of a function.

        Raises:
            InvalidSignature: the function cannot be a tool.
            ValueError: it has no name.
        """
        found = name_of(fn, name)
        validate_and_warn_tool_name(found)
        context_kwarg = context_kwarg or find_context_parameter(fn)
        resolved = find_resolved_parameters(fn)
        if resolved and returns_input_required(fn):
            raise InvalidSignature(
                f"Tool {found!r} combines Resolve(...) parameters with an InputRequiredResult return; {BOTH}"
            )
        skipped = [*([] if context_kwarg is None else [context_kwarg]), *resolved]
        metadata = func_metadata(fn, skipped, structured_output)
        parameters = metadata.arg_model.model_json_schema(by_alias=True)
        reason = find_invalid_x_mcp_header(parameters)
        if reason is not None:
            raise InvalidSignature(f"Tool {found!r} has an invalid x-mcp-header annotation: {reason}")
        arguments = {field.alias or key for key, field in metadata.arg_model.model_fields.items()}
        return cls(
            fn=fn,
            name=found,
            title=title,
            description=description or fn.__doc__ or "",
            parameters=parameters,
            fn_metadata=metadata,
            is_async=is_async_callable(fn),
            context_kwarg=context_kwarg,
            resolved_params=dict(resolved),
            resolver_plans=build_resolver_plans(resolved, arguments),
            annotations=annotations,
            icons=icons,
            meta=meta,
        )

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Call the tool.

        Raises:
            ToolError: the arguments are not valid, or the function failed for a reason that the model may know.
            UnexpectedToolError: the function failed otherwise.
            MCPError: the function wants this error response.
        """
        failed = f"Error executing tool {self.name}"
        try:
            valid = self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(f"{failed}: {error}") from error
        except MCPError:
            raise
        except Exception as error:
            raise UnexpectedToolError(failed) from error
        try:
            result = await self._call(valid, context)
            return self.fn_metadata.convert_result(result) if convert_result else result
        except MCPError:
            raise
        except (UnexpectedToolError, UnexpectedResourceError) as error:
            raise UnexpectedToolError(f"{failed}: {error}") from error
        except (ToolError, ResourceError) as error:
            raise ToolError(f"{failed}: {error}") from error
        except Exception as error:
            raise UnexpectedToolError(failed) from error

    async def _call(self, arguments: dict[str, Any], context: Context[Any, Any]) -> Any:
        """Resolve the parameters that have resolvers, and call the function."""
        direct: dict[str, Any] = {} if self.context_kwarg is None else {self.context_kwarg: context}
        if self.resolved_params:
            resolved = await resolve_arguments(self.resolved_params, self.resolver_plans, arguments, context)
            if isinstance(resolved, InputRequired):
                return resolved
            direct |= resolved
        result = await self.fn_metadata.call_fn(self.fn, self.is_async, arguments, direct)
        if self.resolved_params and isinstance(result, InputRequired):
            raise RuntimeError(f"the tool returned an InputRequiredResult but its parameters use Resolve(...); {BOTH}")
        return result
