"""Notifications of servers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["MessageHandler", "MessageHandlerT"]

MessageHandlerT: TypeAlias = Callable[[Any], Awaitable[None]]

#: Start of each word in the name of a model, except the first.
_WORD = re.compile("(?<=[a-z])(?=[A-Z])")


class MessageHandler:
    """Handler with a hook for each notification, after ``on_message`` and ``on_notification``."""

    async def __call__(self, message: Any) -> None:
        await self.dispatch(message)

    async def dispatch(self, message: Any) -> None:
        """Call the hooks of a message."""
        await self.on_message(message)
        if isinstance(message, Exception):
            await self.on_exception(message)
            return
        await self.on_notification(message)
        inner = getattr(message, "root", message)
        hook = "on_" + _WORD.sub("_", type(inner).__name__.removesuffix("Notification")).lower()
        if hasattr(MessageHandler, hook):
            await getattr(self, hook)(inner)

    async def on_message(self, message: Any) -> None:
        """Handle any message."""

    async def on_notification(self, message: Any) -> None:
        """Handle a notification."""

    async def on_exception(self, message: Exception) -> None:
        """Handle an exception."""

    async def on_progress(self, message: Any) -> None:
        """Handle progress."""

    async def on_logging_message(self, message: Any) -> None:
        """Handle a log message."""

    async def on_tool_list_changed(self, message: Any) -> None:
        """Handle a change of the list of tools."""

    async def on_resource_list_changed(self, message: Any) -> None:
        """Handle a change of the list of resources."""

    async def on_prompt_list_changed(self, message: Any) -> None:
        """Handle a change of the list of prompts."""

    async def on_resource_updated(self, message: Any) -> None:
        """Handle a change of a resource."""

    async def on_cancelled(self, message: Any) -> None:
        """Handle a cancellation."""
