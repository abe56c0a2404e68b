"""Notifications of servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["MessageHandler", "MessageHandlerT"]

MessageHandlerT: TypeAlias = Callable[[Any], Awaitable[None]]

HOOKS = {
    "notifications/progress": "on_progress",
    "notifications/message": "on_logging_message",
    "notifications/tools/list_changed": "on_tool_list_changed",
    "notifications/resources/list_changed": "on_resource_list_changed",
    "notifications/prompts/list_changed": "on_prompt_list_changed",
    "notifications/resources/updated": "on_resource_updated",
    "notifications/cancelled": "on_cancelled",
}


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
        hook = HOOKS.get(getattr(inner, "method", ""))
        if hook is not None:
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
