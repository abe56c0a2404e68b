"""Results of tool calls, with their structured content as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from carrel.compat import mcp2
from carrel.compat.fastmcp.utilities.json_schema_type import json_schema_to_type
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.types import CallToolResult as MCPCallToolResult
from carrel.compat.wire import as_block
from carrel.log import Log

__all__ = ["CallToolResult", "Reader"]

WRAPPED = "x-fastmcp-wrap-result"
logger = Log("fastmcp.client")


@dataclass
class CallToolResult:
    """Result of a tool: content, structured content, and this as ``data`` of the type that the tool declares."""

    content: list[Any]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None
    data: Any = None
    is_error: bool = False


class Reader:
    """Reader of structured content, by the output schemas of tools."""

    def __init__(self) -> None:
        self._adapters: dict[str, tuple[dict[str, Any], TypeAdapter[Any]]] = {}

    def read(self, name: str, result: MCPCallToolResult, schema: dict[str, Any] | None) -> CallToolResult:
        """Return the result of a tool."""
        structured = result.structuredContent
        data: Any = None
        if structured and not result.isError:
            own = (result.meta or {}).get("fastmcp")
            marked = isinstance(own, dict) and own.get("wrap_result")
            wrapped = bool(marked or (schema or {}).get(WRAPPED))
            value = structured.get("result") if wrapped else structured
            try:
                data = value if schema is None else self._adapter(name, schema, wrapped).validate_python(value)
            except Exception as error:
                logger.error("Error parsing structured content: %s", error)
        content: list[Any] = result.content
        if fastmcp_generation() > 3:
            content = [as_block(block, mcp2.types.ContentBlock) or block for block in content]
        return CallToolResult(content, structured, result.meta, data, bool(result.isError))

    def _adapter(self, name: str, schema: dict[str, Any], wrapped: bool) -> TypeAdapter[Any]:
        known = self._adapters.get(name)
        if known is None or known[0] != schema:
            inner = schema
            if wrapped and "result" in schema.get("properties", {}):
                inner = {**schema["properties"]["result"], "$defs": schema.get("$defs", {})}
            known = self._adapters[name] = schema, TypeAdapter(json_schema_to_type(inner))
        return known[1]
