"""Events of a server, for clients that listen to them (2026-07-28)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.types.base import NotificationParams
from carrel.protocol.methods import LIST_NOTIFICATIONS, RESOURCE_UPDATED, ListName
from carrel.server.subscriptions import SUBSCRIPTION as SUBSCRIPTION_ID_META_KEY

__all__ = [
    "LISTEN_STREAM_METHODS",
    "SUBSCRIPTION_ID_META_KEY",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ServerEvent",
    "ToolsListChanged",
    "event_from_wire",
    "event_matches",
    "event_to_notification",
]


@dataclass(frozen=True)
class ToolsListChanged:
    """The list of tools has changed."""


@dataclass(frozen=True)
class PromptsListChanged:
    """The list of prompts has changed."""


@dataclass(frozen=True)
class ResourcesListChanged:
    """The list of resources has changed."""


@dataclass(frozen=True)
class ResourceUpdated:
    """A resource has changed."""

    uri: str


ServerEvent = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated

#: The field of a filter for each event, and the name of the notification.
LISTS: dict[type, tuple[ListName, str]] = {
    ToolsListChanged: ("tools_list_changed", "ToolListChangedNotification"),
    PromptsListChanged: ("prompts_list_changed", "PromptListChangedNotification"),
    ResourcesListChanged: ("resources_list_changed", "ResourceListChangedNotification"),
}
BY_METHOD = {LIST_NOTIFICATIONS[field].method: event for event, (field, _) in LISTS.items()}
UPDATED = RESOURCE_UPDATED.method
LISTEN_STREAM_METHODS = frozenset((*BY_METHOD, UPDATED))


def event_to_notification(event: ServerEvent, meta: dict[str, Any]) -> Any:
    """Return the notification of an event."""
    if isinstance(event, ResourceUpdated):
        return types.ResourceUpdatedNotification(
            params=types.ResourceUpdatedNotificationParams(uri=event.uri, _meta=meta)
        )
    return getattr(types, LISTS[type(event)][1])(params=NotificationParams(_meta=meta))


def event_from_wire(method: str, params: Mapping[str, Any] | None) -> ServerEvent | None:
    """Return the event of a notification; None for other notifications."""
    if method in BY_METHOD:
        found: ServerEvent = BY_METHOD[method]()
        return found
    uri = (params or {}).get("uri")
    return ResourceUpdated(uri) if method == UPDATED and isinstance(uri, str) else None


def event_matches(honored: types.SubscriptionFilter, uris: frozenset[str], event: ServerEvent) -> bool:
    """Return whether a filter asks for an event; ``uris`` are the resources of the filter."""
    if isinstance(event, ResourceUpdated):
        return event.uri in uris
    return getattr(honored, LISTS[type(event)][0]) is True
