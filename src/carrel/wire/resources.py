"""Resources, templates and their contents.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from carrel.wire.base import Annotations, CacheableResult, Icon, Meta, PageResult, Params, Result, Wire


class Resource(Wire):
    """A resource as it is listed. ``size`` is in bytes, before any encoding."""

    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ResourceTemplate(Wire):
    """A family of resources: an RFC 6570 URI template, and what all its members have in common."""

    uri_template: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class TextResourceContents(Wire, gc=False):
    """Text of a resource."""

    uri: str
    text: str
    mime_type: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class BlobResourceContents(Wire, gc=False):
    """Bytes of a resource. They travel as base64 and are bytes on both ends."""

    uri: str
    blob: bytes
    mime_type: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


if TYPE_CHECKING:
    ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
else:

    class ResourceContents(ABC):  # noqa: B024  (what it stands for is registered, not derived)
        """Text or bytes. Nothing on the wire says which, so that decoders need ``read_contents`` as their hook."""

    ResourceContents.register(TextResourceContents)
    ResourceContents.register(BlobResourceContents)


def read_contents(kind: Any, value: Any) -> ResourceContents:
    """Tell text and bytes apart: the ``dec_hook`` of decoders of anything that contents can be in."""
    if kind is not ResourceContents:
        raise NotImplementedError(f"{kind} is not a type of the wire")
    if isinstance(value, dict) and "blob" in value:
        return msgspec.convert(value, BlobResourceContents)
    return msgspec.convert(value, TextResourceContents)


class ListResourcesResult(PageResult, kw_only=True):
    resources: list[Resource]


class ListResourceTemplatesResult(PageResult, kw_only=True):
    resource_templates: list[ResourceTemplate]


class ReadResourceParams(Params, kw_only=True):
    uri: str
    input_responses: Raw | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class ReadResourceResult(CacheableResult, kw_only=True):
    contents: list[ResourceContents]


class SubscribeParams(Params, kw_only=True):
    """Parameters of resources/subscribe and resources/unsubscribe (before 2026-07-28)."""

    uri: str


class SubscriptionFilter(Wire, kw_only=True):
    """What a listener wants to hear of. A field that is absent asks for nothing."""

    tools_list_changed: bool | UnsetType = UNSET
    prompts_list_changed: bool | UnsetType = UNSET
    resources_list_changed: bool | UnsetType = UNSET
    resource_subscriptions: list[str] | UnsetType = UNSET
    task_ids: list[str] | UnsetType = UNSET


class ListenParams(Params, kw_only=True):
    """Parameters of subscriptions/listen (2026-07-28)."""

    notifications: SubscriptionFilter


class ListenResult(Result, kw_only=True):
    """The graceful end of a subscription stream."""


class AcknowledgedParams(Wire, kw_only=True):
    """Parameters of notifications/subscriptions/acknowledged: what the server agreed to."""

    meta: Meta | UnsetType = field(default=UNSET, name="_meta")
    notifications: SubscriptionFilter


class ResourceUpdatedParams(Wire, kw_only=True):
    """Parameters of notifications/resources/updated."""

    meta: Meta | UnsetType = field(default=UNSET, name="_meta")
    uri: str
