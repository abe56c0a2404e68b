"""Declaration of apps (MCP Apps): the ``ui`` of a tool's or resource's ``_meta``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = [
    "UI_EXTENSION_ID",
    "UI_MIME_TYPE",
    "AppConfig",
    "PrefabAppConfig",
    "ResourceCSP",
    "ResourcePermissions",
    "app_config_to_meta_dict",
    "resolve_ui_mime_type",
    "ui_meta",
]

UI_EXTENSION_ID = "io.modelcontextprotocol/ui"
UI_MIME_TYPE = "text/html;profile=mcp-app"


class Config(BaseModel):
    """Model with names in camelCase on the wire, and in either case in programs. Unknown fields are kept."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, alias_generator=to_camel)


class ResourceCSP(Config):
    """Origins that an app may connect to, load from, embed and use as a base."""

    connect_domains: list[str] | None = None
    resource_domains: list[str] | None = None
    frame_domains: list[str] | None = None
    base_uri_domains: list[str] | None = None


class ResourcePermissions(Config):
    """Permissions that an app requests."""

    camera: dict[str, Any] | None = None
    microphone: dict[str, Any] | None = None
    geolocation: dict[str, Any] | None = None
    clipboard_write: dict[str, Any] | None = None


class AppConfig(Config):
    """App of a tool (``resource_uri``, ``visibility``), or details of an app that is a resource."""

    resource_uri: str | None = None
    visibility: list[Literal["app", "model"]] | None = None
    csp: ResourceCSP | None = None
    permissions: ResourcePermissions | None = None
    domain: str | None = None
    prefers_border: bool | None = None


class PrefabAppConfig(AppConfig):
    """App of a tool that returns components of the package ``prefab_ui``."""

    resource_uri: str | None = "ui://prefab/renderer.html"


def app_config_to_meta_dict(app: AppConfig | dict[str, Any]) -> dict[str, Any]:
    """Return the declaration as it is sent."""
    return app.model_dump(by_alias=True, exclude_none=True) if isinstance(app, AppConfig) else app


def ui_meta(meta: dict[str, Any] | None, app: Any) -> dict[str, Any] | None:
    """Return ``_meta`` with the declaration of an app, if there is one."""
    if app is None or app is False:
        return meta
    return {**(meta or {}), "ui": True if app is True else app_config_to_meta_dict(app)}


def resolve_ui_mime_type(uri: str, explicit_mime_type: str | None) -> str | None:
    """Return the given MIME type of a resource, or the MIME type of apps for ``ui://`` URIs."""
    return UI_MIME_TYPE if explicit_mime_type is None and uri.lower().startswith("ui://") else explicit_mime_type
