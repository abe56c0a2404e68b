"""Apps: user interfaces of tools."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.apps.config import (
    UI_EXTENSION_ID,
    UI_MIME_TYPE,
    AppConfig,
    PrefabAppConfig,
    ResourceCSP,
    ResourcePermissions,
    app_config_to_meta_dict,
    resolve_ui_mime_type,
)
from carrel.compat.lazy import lazily

__all__ = [
    "UI_EXTENSION_ID",
    "UI_MIME_TYPE",
    "AppConfig",
    "FastMCPApp",
    "PrefabAppConfig",
    "ResourceCSP",
    "ResourcePermissions",
    "app_config_to_meta_dict",
    "resolve_ui_mime_type",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"FastMCPApp": "app"})
