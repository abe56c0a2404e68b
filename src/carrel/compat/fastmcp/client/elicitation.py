"""Answers of a client to forms."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar

import pydantic_core
from pydantic import BaseModel

from carrel.compat.fastmcp.utilities.json_schema_type import json_schema_to_type
from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.types import ElicitRequestFormParams as ElicitRequestParams
from carrel.compat.mcp.types import ElicitResult as MCPElicitResult
from carrel.compat.wire import as_model

__all__ = ["ElicitRequestParams", "ElicitResult", "ElicitationHandler", "RequestContext", "elicitation_callback"]

T = TypeVar("T")
ElicitationHandler: TypeAlias = Callable[..., Any]


class ElicitResult(MCPElicitResult, Generic[T]):  # type: ignore[misc]
    """Answer to a form, whose content may be an object."""

    content: T | None = None


def elicitation_callback(handler: ElicitationHandler) -> Callable[[Any, Any], Awaitable[MCPElicitResult]]:
    """Return the callback of a handler, which takes message, type, parameters and context.

    It returns an ``ElicitResult``, or the content of one that accepts.
    """

    async def callback(context: Any, params: Any) -> MCPElicitResult:
        schema: dict[str, Any] = getattr(params, "requestedSchema", None) or {}
        kind = json_schema_to_type(schema) if schema.get("properties") else None
        found = handler(params.message, kind, params, context)
        if inspect.isawaitable(found):
            found = await found
        found = as_model(found, MCPElicitResult)
        if not isinstance(found, MCPElicitResult):
            found = ElicitResult(action="accept", content=found)
        content = found.content
        if dataclasses.is_dataclass(content) or isinstance(content, BaseModel):
            content = pydantic_core.to_jsonable_python(content)
        return MCPElicitResult(action=found.action, content=content)

    return callback
