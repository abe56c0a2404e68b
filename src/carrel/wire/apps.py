"""What is said of pages that a host shows for tools (MCP Apps, extension ``io.modelcontextprotocol/ui``).

It all stands in ``_meta.ui`` of resources, contents and tools.
https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from carrel.wire.base import Wire


class PageSecurity(Wire, kw_only=True):
    """The origins that a page may use, for its Content Security Policy; none of a kind that is absent.

    ``connect_domains`` are for requests, ``resource_domains`` for scripts, styles, pictures, fonts and media,
    ``frame_domains`` for frames in it, ``base_uri_domains`` for its base URI.
    """

    connect_domains: list[str] | UnsetType = UNSET
    resource_domains: list[str] | UnsetType = UNSET
    frame_domains: list[str] | UnsetType = UNSET
    base_uri_domains: list[str] | UnsetType = UNSET


class PagePermissions(Wire, kw_only=True):
    """What a page asks of the browser. Each one is an empty object where it is asked for."""

    camera: dict[str, Any] | UnsetType = UNSET
    microphone: dict[str, Any] | UnsetType = UNSET
    geolocation: dict[str, Any] | UnsetType = UNSET
    clipboard_write: dict[str, Any] | UnsetType = UNSET


class PageMeta(Wire, kw_only=True):
    """``_meta.ui`` of a page."""

    csp: PageSecurity | UnsetType = UNSET
    permissions: PagePermissions | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    prefers_border: bool | UnsetType = UNSET


class ToolMeta(Wire, kw_only=True):
    """``_meta.ui`` of a tool: the page that shows its results, and who may see and call it (both, if absent)."""

    resource_uri: str | UnsetType = UNSET
    visibility: list[Literal["model", "app"]] | UnsetType = UNSET
