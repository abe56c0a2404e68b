"""URIs of pages in the ``_meta`` of tools (MCP Apps).

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["PAGE_KEYS", "with_page_uris"]

#: Key of the URI of a page in ``_meta.ui``, and its older form in ``_meta`` itself.
NESTED, FLAT = "resourceUri", "ui/resourceUri"
#: Keys of a tool's ``_meta`` about its page.
PAGE_KEYS = frozenset(("ui", FLAT))
SCHEME = "ui://"


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
