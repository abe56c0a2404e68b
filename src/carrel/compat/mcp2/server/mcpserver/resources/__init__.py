"""Resources of a server. Their models are created on first use."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "Resource": "base",
    "ResourceManager": "resource_manager",
    **dict.fromkeys(("DEFAULT_RESOURCE_SECURITY", "ResourceSecurity", "ResourceSecurityError"), "security"),
    "ResourceTemplate": "templates",
    **dict.fromkeys(
        ("BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "HttpResource", "TextResource"),
        "types",
    ),
    **{module: module for module in ("base", "resource_manager", "templates", "types")},
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
