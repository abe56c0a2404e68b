"""Streams of events of a server (2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_matches,
)
from carrel.compat.mcp2.types.version import MODERN_PROTOCOL_VERSIONS
from carrel.compat.wire import model_of
from carrel.protocol.client import ServerNotification

__all__ = [
    "ListenNotSupportedError",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ServerEvent",
    "Subscription",
    "SubscriptionLost",
    "ToolsListChanged",
    "listen",
]

EVENTS: dict[str, Callable[[Any], ServerEvent]] = {
    "tools_list_changed": lambda _: ToolsListChanged(),
    "prompts_list_changed": lambda _: PromptsListChanged(),
    "resources_list_changed": lambda _: ResourcesListChanged(),
    "resource_updated": lambda params: ResourceUpdated(params.uri),
}


class ListenNotSupportedError(RuntimeError):
    """The revision of the connection has no streams of events."""

    def __init__(self, negotiated_version: str | None) -> None:
        self.negotiated_version = negotiated_version
        super().__init__(
            f"subscriptions/listen is not available at protocol version {negotiated_version!r}; it requires "
            "2026-07-28. On earlier versions use subscribe_resource() and the change notifications delivered "
            "through message_handler."
        )


class SubscriptionLost(RuntimeError):
    """The stream has ended, and the server did not end it on purpose."""


class Subscription:
    """Stream of events. ``honored`` is the part of the filter that the server honors."""

    def __init__(self, on_event: Callable[[ServerEvent], Awaitable[None]] | None = None) -> None:
        self.subscription_id: Any = None
        self.honored: Any = None
        self._on_event = on_event
        self._pending: dict[ServerEvent, None] = {}
        self._changed = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def take_notice(self, notice: ServerNotification) -> None:
        """Handle a notification on the stream."""
        if notice.event in EVENTS:
            event = EVENTS[notice.event](notice.params)
            uris = frozenset(() if self.honored is None else self.honored.resource_subscriptions or ())
            admitted = bool(uris) if isinstance(event, ResourceUpdated) else self._admits(event, uris)
            if admitted:
                self._pending[event] = None
                self._changed.set()
        elif self.honored is None:
            self.subscription_id = notice.subscription
            self.honored = model_of(notice.params.notifications, types.SubscriptionFilter)
            self._acknowledged.set()

    def _admits(self, event: ServerEvent, uris: frozenset[str]) -> bool:
        return self.honored is not None and event_matches(self.honored, uris, event)

    def end(self, error: BaseException | None = None) -> None:
        """End the stream, after the events that wait."""
        self._ended, self._error = True, error
        self._acknowledged.set()
        self._changed.set()

    async def acknowledged(self) -> None:
        """Wait until the server has acknowledged the filter.

        Raises:
            MCPError: the server refuses.
            SubscriptionLost: the stream has ended before.
        """
        await self._acknowledged.wait()
        if self.honored is None:
            if isinstance(self._error, MCPError):
                raise self._error
            raise SubscriptionLost("the stream ended before it was acknowledged") from self._error

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event.

        Raises:
            SubscriptionLost: the stream has ended, and the server did not end it on purpose.
        """
        while not self._pending:
            if self._ended and self._error is not None:
                raise SubscriptionLost(
                    f"subscription {self.subscription_id!r} ended without the server's graceful close;"
                    " re-listen and refetch"
                ) from self._error
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = next(iter(self._pending))
        if self._on_event is not None:
            await self._on_event(event)
        self._pending.pop(event, None)
        return event


@asynccontextmanager
async def listen(
    session: Any,
    *,
    tools_list_changed: bool = False,
    prompts_list_changed: bool = False,
    resources_list_changed: bool = False,
    resource_subscriptions: Sequence[str] = (),
    on_event: Callable[[ServerEvent], Awaitable[None]] | None = None,
) -> AsyncIterator[Subscription]:
    """Open a stream of events, and end it with the block.

    Raises:
        ListenNotSupportedError: the revision of the connection has no such streams.
        MCPError: the server refuses.
        SubscriptionLost: the stream has ended before it was acknowledged.
    """
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise ListenNotSupportedError(session.protocol_version)
    if isinstance(resource_subscriptions, str):
        raise TypeError("resource_subscriptions takes a sequence of URIs, not a bare string")
    wanted = {
        "toolsListChanged": tools_list_changed or None,
        "promptsListChanged": prompts_list_changed or None,
        "resourcesListChanged": resources_list_changed or None,
        "resourceSubscriptions": list(resource_subscriptions) or None,
    }
    filter = {name: value for name, value in wanted.items() if value is not None}
    subscription = Subscription(on_event)
    task = asyncio.create_task(_follow(session, msgspec.json.encode({"notifications": filter}), subscription))
    try:
        await subscription.acknowledged()
        yield subscription
    finally:
        subscription.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _follow(session: Any, params: bytes, subscription: Subscription) -> None:
    """Send the request, and end the subscription with its result."""
    try:
        await session.follow(params, subscription)
    except Exception as error:
        subscription.end(error)
    else:
        subscription.end()
