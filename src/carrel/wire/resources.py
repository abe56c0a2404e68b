"""Resources, resource templates, resource contents and subscriptions.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from carrel.wire.base import Annotations, CacheableResult, Icon, Meta, PageResult, Params, Result, Wire


class Resource(Wire):
    """A resource in a list. ``size`` is in bytes, before any encoding."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceTemplate(Wire):
    """A resource template: an RFC 6570 URI template, and the metadata of the resources that match it."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class TextResourceContents(Wire, gc=False):
    """Text contents of a resource."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class BlobResourceContents(Wire, gc=False):
    """Binary contents of a resource: bytes, encoded as base64 on the wire."""

    uri: str
    blob: bytes
    mime_type: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


if TYPE_CHECKING:
    ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
else:

    class ResourceContents(ABC):  # noqa: B024  (its types are registered, not derived)
        """Text or binary contents. Untagged on the wire, so decoders need ``read_contents`` as ``dec_hook``."""

    ResourceContents.register(TextResourceContents)
    ResourceContents.register(BlobResourceContents)


def read_contents(kind: Any, value: Any) -> ResourceContents:
    """Decode text or binary contents: the ``dec_hook`` for all types that hold contents."""
    if kind is not ResourceContents:
        raise NotImplementedError(f"{kind} is not a wire type")
    if isinstance(value, dict) and value.get("blob") is not None:
        return msgspec.convert(value, BlobResourceContents)
    return msgspec.convert(value, TextResourceContents)


class ListResourcesResult(PageResult, kw_only=True):
    resources: list[Resource]


class ListResourceTemplatesResult(PageResult, kw_only=True):
    resource_templates: list[ResourceTemplate]


class ReadResourceParams(Params, kw_only=True):
    uri: str
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class ReadResourceResult(CacheableResult, kw_only=True):
    contents: list[ResourceContents]


def decoded(result: ReadResourceResult | bytes) -> ReadResourceResult:
    """Return the result of a read, which may be encoded."""
    if isinstance(result, bytes):
        return msgspec.json.decode(result, type=ReadResourceResult, dec_hook=read_contents)
    return result


class SubscribeParams(Params, kw_only=True):
    """Parameters of resources/subscribe and resources/unsubscribe (before 2026-07-28)."""

    uri: str


class SubscriptionFilter(Wire, kw_only=True):
    """Filter of a subscription: the notifications a client subscribes to. Absent fields subscribe to nothing."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


class ListenParams(Params, kw_only=True):
    """Parameters of subscriptions/listen (2026-07-28)."""

    notifications: SubscriptionFilter


class ListenResult(Result, kw_only=True):
    """Result of subscriptions/listen: the graceful end of the stream."""


class AcknowledgedParams(Wire, kw_only=True):
    """Parameters of notifications/subscriptions/acknowledged: the filter that the server accepted."""

    meta: Meta | None = field(default=None, name="_meta")
    notifications: SubscriptionFilter


class ResourceUpdatedParams(Wire, kw_only=True):
    """Parameters of notifications/resources/updated."""

    meta: Meta | None = field(default=None, name="_meta")
    uri: str
