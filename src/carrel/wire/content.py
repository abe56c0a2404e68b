"""Content blocks of tool results and prompt messages.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import field

from carrel.wire.base import Annotations, Meta, Wire
from carrel.wire.resources import Resource, ResourceContents


class TextContent(Wire, tag_field="type", tag="text", gc=False):
    """Text content."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ImageContent(Wire, tag_field="type", tag="image", gc=False):
    """Image content: its bytes and their MIME type."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class AudioContent(Wire, tag_field="type", tag="audio", gc=False):
    """Audio content: its bytes and their MIME type."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceLink(Resource, tag_field="type", tag="resource_link", kw_only=True):
    """A link to a resource, which need not be listed."""


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    """The contents of a resource, embedded in a message."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
