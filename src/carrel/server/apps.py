"""MCP Apps: pages as ``ui:`` resources, ``_meta.ui`` of tools, and tools without it for clients that show no pages.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import to_builtins

from carrel.catalog.tool_pages import HTML
from carrel.errors import ConfigError
from carrel.protocol.extensions.ui import UI
from carrel.server.contents import Contents
from carrel.server.options import read_struct
from carrel.uri.parse import UriError, normalize
from carrel.wire.apps import PageMeta, PagePermissions, PageSecurity, ToolMeta

if TYPE_CHECKING:
    from carrel.server.options import ResourceOptions
    from carrel.server.runtime import Runtime

__all__ = ["add_page", "page_meta", "tool_meta", "use"]

SCHEME = "ui://"
#: Characters that would end an origin where hosts put it, a Content Security Policy.
UNSAFE = frozenset(" \t\r\n\f\v;,'\"")


def use(runtime: Runtime) -> None:
    """Declare the MCP Apps extension."""
    runtime.extend(UI, {})


def add_page(
    runtime: Runtime, add: Callable[..., None], uri: str, html: str | Path, ui: dict[str, Any], options: ResourceOptions
) -> None:
    """Register a page as a resource with ``add``, which is ``Resources.add``.

    Raises:
        ConfigError: the URI is not a ``ui:`` URI, or is taken.
    """
    uri = page_uri(uri)
    if not isinstance(html, str | Path):
        raise ConfigError(f"{uri}: a page is text, or the Path of a file, not {type(html).__name__}")
    meta = {"ui": ui} if ui else {}
    value = Contents(html, mime_type=HTML, meta=meta or None)
    meta |= options.get("meta") or {}
    options = {**options, "mime_type": HTML, "meta": meta or None}
    add(uri, value, **options)
    use(runtime)


def page_meta(
    csp: PageSecurity | dict[str, Any] | None,
    permissions: Iterable[str],
    domain: str | None,
    prefers_border: bool | None,
) -> dict[str, Any]:
    """Return the ``_meta.ui`` of a page: Content Security Policy, permissions, domain and border.

    Raises:
        ConfigError: a field or a permission is unknown, or an origin is not valid.
    """
    security = None if csp is None else read_struct(csp, PageSecurity, "csp")
    if security is not None:
        for field in PageSecurity.__struct_fields__:
            for origin in getattr(security, field) or ():
                if not origin or UNSAFE & set(origin) or not origin.isprintable():
                    raise ConfigError(f"csp: {origin!r} is not an origin such as https://api.example.com")
    if isinstance(permissions, str):
        raise ConfigError(f"permissions are several: [{permissions!r}]")
    asked = {name: dict[str, Any]() for name in permissions}
    meta = PageMeta(
        csp=security,
        permissions=read_struct(asked, PagePermissions, "permissions") if asked else None,
        domain=domain,
        prefers_border=prefers_border,
    )
    built: dict[str, Any] = to_builtins(meta)
    return built


def tool_meta(page: str | None, visibility: Iterable[str] | None) -> dict[str, Any]:
    """Return the ``_meta.ui`` of a tool: the URI of its page, and its visibility.

    Raises:
        ConfigError: the URI is not a ``ui:`` URI, or the visibility is neither "model" nor "app".
    """
    if page is not None:
        page = page_uri(page)
    if isinstance(visibility, str):
        visibility = [visibility]
    seen = None if visibility is None else list(visibility)
    try:
        meta = msgspec.convert(to_builtins(ToolMeta(resource_uri=page, visibility=seen)), ToolMeta)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        raise ConfigError(f"visibility: {error}") from None
    built: dict[str, Any] = to_builtins(meta)
    return built


def page_uri(uri: str) -> str:
    """Return the normal form of the URI of a page.

    Raises:
        ConfigError: it is not one.
    """
    try:
        normal = normalize(uri)
    except UriError:
        normal = ""
    if normal.startswith(SCHEME) and normal != SCHEME:
        return normal
    raise ConfigError(f"{uri!r} is not the URI of a page, such as ui://weather/dashboard.html")
