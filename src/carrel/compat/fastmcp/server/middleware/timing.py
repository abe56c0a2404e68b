"""Middleware that logs how long requests take."""

from __future__ import annotations

import logging
import time
from typing import Any

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["DetailedTimingMiddleware", "TimingMiddleware"]


class TimingMiddleware(Middleware):
    """Middleware that logs how long each request takes."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        self.logger = logger or logging.getLogger("fastmcp.timing")
        self.log_level = log_level

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        begun = time.perf_counter()
        verb = "failed after"
        try:
            result = await call_next(context)
            verb = "completed in"
            return result
        finally:
            passed = (time.perf_counter() - begun) * 1000
            self.logger.log(self.log_level, "Request %s %s %.2fms", context.method, verb, passed)


class DetailedTimingMiddleware(Middleware):
    """Middleware that logs how long each call, read, prompt and list takes, with the name."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        self.logger = logger or logging.getLogger("fastmcp.timing.detailed")
        self.log_level = log_level

    async def _time(self, what: str, context: Any, call_next: Any) -> Any:
        begun = time.perf_counter()
        verb = "failed after"
        try:
            result = await call_next(context)
            verb = "completed in"
            return result
        finally:
            self.logger.log(self.log_level, "%s %s %.2fms", what, verb, (time.perf_counter() - begun) * 1000)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Handle a call of a tool."""
        return await self._time(f"Tool '{context.message.name}'", context, call_next)

    async def on_read_resource(self, context: Any, call_next: Any) -> Any:
        """Handle a read."""
        return await self._time(f"Resource '{context.message.uri}'", context, call_next)

    async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
        """Handle a prompt."""
        return await self._time(f"Prompt '{context.message.name}'", context, call_next)

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """Handle a list of tools."""
        return await self._time("List tools", context, call_next)

    async def on_list_resources(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resources."""
        return await self._time("List resources", context, call_next)

    async def on_list_resource_templates(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resource templates."""
        return await self._time("List resource templates", context, call_next)

    async def on_list_prompts(self, context: Any, call_next: Any) -> Any:
        """Handle a list of prompts."""
        return await self._time("List prompts", context, call_next)
