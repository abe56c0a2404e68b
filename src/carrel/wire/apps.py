"""MCP Apps metadata: pages that a host shows for tools (extension ``io.modelcontextprotocol/ui``).

All of it is in ``_meta.ui`` of resources, contents and tools.
https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from typing import Any, Literal

from carrel.wire.base import Wire


class PageSecurity(Wire, kw_only=True):
    """Content Security Policy of a page: its allowed origins; absent kinds allow none.

    ``connect_domains`` are for requests, ``resource_domains`` for scripts, styles, images, fonts and media,
    ``frame_domains`` for nested frames, ``base_uri_domains`` for its base URI.
    """

    connect_domains: list[str] | None = None
    resource_domains: list[str] | None = None
    frame_domains: list[str] | None = None
    base_uri_domains: list[str] | None = None


class PagePermissions(Wire, kw_only=True):
    """Browser permissions that a page requests. Each requested one is an empty object."""

    camera: dict[str, Any] | None = None
    microphone: dict[str, Any] | None = None
    geolocation: dict[str, Any] | None = None
    clipboard_write: dict[str, Any] | None = None


class PageMeta(Wire, kw_only=True):
    """``_meta.ui`` of a page: security policy, permissions and presentation."""

    csp: PageSecurity | None = None
    permissions: PagePermissions | None = None
    domain: str | None = None
    prefers_border: bool | None = None


class ToolMeta(Wire, kw_only=True):
    """``_meta.ui`` of a tool: the page of its results, and whether model or app may see and call it (default: both)."""

    resource_uri: str | None = None
    visibility: list[Literal["model", "app"]] | None = None
