"""Addresses of the tools of apps, ``HASH_NAME``, which stay the same when servers rename or mount the tools."""

from __future__ import annotations

import hashlib
import re
from typing import Any

__all__ = [
    "HASH_LENGTH",
    "TOOL_HASH_META_KEY",
    "hash_tool",
    "hashed_backend_name",
    "hashed_resource_uri",
    "is_app_tool_with_identity",
    "is_backend_tool",
    "parse_hashed_backend_name",
    "parse_hashed_resource_uri",
    "tool_app",
    "tool_identity",
]

HASH_LENGTH = 12
TOOL_HASH_META_KEY = "tool_hash"
ADDRESS = re.compile(rf"(?s)([0-9a-f]{{{HASH_LENGTH}}})_(.+)")
PAGE = re.compile(rf"ui://prefab/tool/([0-9a-f]{{{HASH_LENGTH}}})/renderer\.html")


def hash_tool(app_name: str, tool_name: str) -> str:
    """Return the hash of a tool of an app."""
    return hashlib.sha256(f"{app_name}\0{tool_name}".encode()).hexdigest()[:HASH_LENGTH]


def hashed_backend_name(app_name: str, tool_name: str) -> str:
    """Return the address of a tool of an app."""
    return f"{hash_tool(app_name, tool_name)}_{tool_name}"


def parse_hashed_backend_name(name: str) -> tuple[str, str] | None:
    """Return the hash and the name in an address, or None."""
    found = ADDRESS.fullmatch(name)
    return None if found is None else (found[1], found[2])


def hashed_resource_uri(app_name: str, tool_name: str) -> str:
    """Return the URI of the page of a tool."""
    return f"ui://prefab/tool/{hash_tool(app_name, tool_name)}/renderer.html"


def parse_hashed_resource_uri(uri: str) -> str | None:
    """Return the hash in the URI of the page of a tool, or None."""
    found = PAGE.fullmatch(uri)
    return None if found is None else found[1]


def _own(tool: Any, key: str) -> str | None:
    own = (tool.meta or {}).get("fastmcp")
    value = own.get(key) if isinstance(own, dict) else None
    return value if isinstance(value, str) else None


def tool_app(tool: Any) -> str | None:
    """Return the name of the app of a tool, or None."""
    return _own(tool, "app")


def tool_identity(tool: Any) -> str | None:
    """Return the hash that a tool carries, or None."""
    return _own(tool, TOOL_HASH_META_KEY)


def is_app_tool_with_identity(tool: Any, tool_hash: str) -> bool:
    """Return whether apps may call a tool, and it carries the hash."""
    ui = (tool.meta or {}).get("ui")
    return tool_identity(tool) == tool_hash and isinstance(ui, dict) and "app" in ui.get("visibility", ())


def is_backend_tool(tool: Any) -> bool:
    """Return whether only apps may call a tool, by its address. Version 3 does not list it."""
    ui = (tool.meta or {}).get("ui")
    return tool_app(tool) is not None and isinstance(ui, dict) and ui.get("visibility") == ["app"]
