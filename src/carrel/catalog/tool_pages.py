"""Tools with a page (MCP Apps): the URI of the page in their ``_meta``, and the clients that show pages.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.protocol.extensions.ui import UI
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from carrel.protocol.connection import Peer

__all__ = ["HTML", "PAGE_KEYS", "for_models", "shows_pages", "with_page_uris", "without_page"]

#: The MIME type of pages, the only one so far.
HTML = "text/html;profile=mcp-app"

#: Key of the URI of a page in ``_meta.ui``, and its older form in ``_meta`` itself.
NESTED, FLAT = "resourceUri", "ui/resourceUri"
#: Keys of a tool's ``_meta`` about its page.
PAGE_KEYS = frozenset(("ui", FLAT))
SCHEME = "ui://"
#: A tool with a page. The oldest revisions have no ``_meta`` for it.
PROBE = Tool(name="probe", input_schema={}, meta={"ui": {}})


def with_page_uris(meta: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return the ``_meta`` of a tool with the URIs of its page changed. A URI of another scheme is removed."""
    changed = _with(FLAT, meta, change)
    if isinstance(meta.get("ui"), dict):
        changed["ui"] = _with(NESTED, meta["ui"], change)
    return changed


def _with(key: str, members: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    changed = dict(members)
    uri = changed.pop(key, None)
    if isinstance(uri, str) and uri.startswith(SCHEME):
        changed[key] = change(uri)
    return changed


def shows_pages(peer: Peer) -> bool:
    """Return whether a client shows pages of type ``HTML``, and its revision has the ``_meta`` to refer to them."""
    settings = peer.settings(UI.name)
    if not isinstance(settings, dict) or peer.revision.project(PROBE).meta is None:
        return False
    types = settings.get("mimeTypes", [HTML])
    return isinstance(types, list) and HTML in types


def for_models(ui: Any) -> bool:
    """Return whether models may see a tool, by its ``_meta.ui``; tools for pages only are hidden from other clients.

    A visibility that is not a list counts as absent.
    """
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return not isinstance(visibility, list | tuple) or "model" in visibility


def without_page(tool: Tool) -> Tool:
    """Return a tool without the keys of ``_meta`` about its page, for clients that do not show pages."""
    if tool.meta is None or not PAGE_KEYS & tool.meta.keys():
        return tool
    rest = {key: value for key, value in tool.meta.items() if key not in PAGE_KEYS}
    return msgspec.structs.replace(tool, meta=rest or None)
