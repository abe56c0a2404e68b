"""Middleware that cuts long results of tools."""

from __future__ import annotations

from typing import Any

import pydantic_core

from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.fastmcp.tools.result import ToolResult
from carrel.compat.mcp.types import TextContent
from carrel.log import Log

__all__ = ["ResponseLimitingMiddleware"]

logger = Log("fastmcp.server.middleware.response_limiting")
#: Bytes of a result besides its text.
AROUND = 50


class ResponseLimitingMiddleware(Middleware):
    """Middleware that replaces results of more than ``max_size`` bytes by their first part, as text.

    Raises:
        ValueError: ``max_size`` is not positive.
    """

    def __init__(
        self,
        *,
        max_size: int = 1_000_000,
        truncation_suffix: str = "\n\n[Response truncated due to size limit]",
        tools: list[str] | None = None,
    ) -> None:
        if max_size <= 0:
            raise ValueError(f"max_size must be positive, got {max_size}")
        self.max_size, self.truncation_suffix = max_size, truncation_suffix
        self.tools = None if tools is None else set(tools)

    def _truncate_to_result(self, text: str, meta: dict[str, Any] | None = None) -> ToolResult:
        room = max(0, self.max_size - len(self.truncation_suffix.encode()) - AROUND)
        kept = text.encode()[:room].decode(errors="ignore")
        block = TextContent(type="text", text=kept + self.truncation_suffix)
        return ToolResult([block], meta={} if meta is None else meta)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Handle a call of a tool."""
        result = await call_next(context)
        if self.tools is not None and context.message.name not in self.tools:
            return result
        whole = pydantic_core.to_json(result, fallback=str)
        if len(whole) <= self.max_size:
            return result
        logger.warning("Tool %r response has %d bytes, truncating", context.message.name, len(whole))
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        return self._truncate_to_result("\n\n".join(texts) or whole.decode(errors="replace"), result.meta)
