"""Events for clients that listen to them (2026-07-28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.context import ServerRequestContext
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_matches,
    event_to_notification,
)
from carrel.compat.mcp2.types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

__all__ = [
    "SUBSCRIPTION_ID_META_KEY",
    "InMemorySubscriptionBus",
    "ListenHandler",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ServerEvent",
    "SubscriptionBus",
    "ToolsListChanged",
]

logger = get_logger(__name__)

Listener: TypeAlias = Callable[[ServerEvent], None]
LISTS = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")


class SubscriptionBus(Protocol):
    """Channel between the code that publishes events and the streams of clients."""

    async def publish(self, event: ServerEvent) -> None:
        """Pass an event to all listeners."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return the function that removes it."""


class InMemorySubscriptionBus:
    """Channel within the process."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}

    async def publish(self, event: ServerEvent) -> None:
        """Pass an event to all listeners. An exception of one is logged."""
        for listener in list(self._listeners.values()):
            try:
                listener(event)
            except Exception:
                logger.exception("subscription listener raised; continuing")
        await anyio.lowlevel.checkpoint()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return the function that removes it."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None


class ListenHandler:
    """Handler of ``subscriptions/listen``: acknowledges the filter, then sends events until one side ends the stream.

    A stream that does not take ``max_buffered_events`` events in time ends.
    """

    def __init__(self, bus: SubscriptionBus, *, max_subscriptions: int = 1024, max_buffered_events: int = 1024) -> None:
        self._bus = bus
        self._most = max_subscriptions
        self._buffered = max_buffered_events
        self._streams: set[Any] = set()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream.

        Raises:
            MCPError: there are too many streams.
        """
        id = ctx.request_id
        if id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        if len(self._streams) >= self._most:
            raise MCPError(INTERNAL_ERROR, "Subscription limit reached")
        asked = params.notifications
        uris = list(asked.resource_subscriptions or ())
        honored = types.SubscriptionFilter(
            **{name: True for name in LISTS if getattr(asked, name)}, resource_subscriptions=uris or None
        )
        meta = {SUBSCRIPTION_ID_META_KEY: id}
        send, receive = anyio.create_memory_object_stream[ServerEvent](self._buffered)

        def deliver(event: ServerEvent) -> None:
            if not event_matches(honored, frozenset(uris), event):
                return
            try:
                send.send_nowait(event)
            except anyio.ClosedResourceError:
                pass  # the stream ends
            except anyio.WouldBlock:
                logger.warning("listen stream %r backlog full; ending the stream", id)
                self._streams.discard(send)
                send.close()

        remove = self._bus.subscribe(deliver)
        self._streams.add(send)
        try:
            told = types.SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
            await ctx.session.send_notification(types.SubscriptionsAcknowledgedNotification(params=told), id)
            async for event in receive:
                await ctx.session.send_notification(event_to_notification(event, meta), id)
        finally:
            try:
                remove()
            except Exception:
                logger.exception("bus unsubscribe raised; continuing stream cleanup")
            self._streams.discard(send)
            send.close()
            receive.close()
        return types.SubscriptionsListenResult(_meta=meta)

    def close(self) -> None:
        """End all streams, after the events that are buffered."""
        for stream in list(self._streams):
            stream.close()
