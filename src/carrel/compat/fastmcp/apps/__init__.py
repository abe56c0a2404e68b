"""Apps: user interfaces of tools."""

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

__all__ = [
    "UI_EXTENSION_ID",
    "UI_MIME_TYPE",
    "AppConfig",
    "PrefabAppConfig",
    "ResourceCSP",
    "ResourcePermissions",
    "app_config_to_meta_dict",
    "resolve_ui_mime_type",
]
