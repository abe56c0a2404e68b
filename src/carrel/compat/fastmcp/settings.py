"""Settings for all servers and clients of a process, from the environment: ``FASTMCP_HOST``, ``FASTMCP_PORT``, …"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["Settings", "settings"]

PREFIX = "FASTMCP_"


class DocketSettings(BaseModel):
    """Settings of the queue of tasks, which Carrel does not use."""

    name: str = "fastmcp"
    url: str = "memory://"
    worker_name: str | None = None
    concurrency: int = 10
    redelivery_timeout: timedelta = timedelta(seconds=300)
    reconnection_delay: timedelta = timedelta(seconds=5)
    minimum_check_interval: timedelta = timedelta(milliseconds=50)


class Settings(BaseModel):
    """Settings that programs read or set. Other environment variables of ``fastmcp`` are not looked at."""

    model_config = ConfigDict(extra="ignore", validate_assignment=True)

    home: Path = Field(default_factory=lambda: Path.home() / ".local/share/fastmcp")
    host: str = "127.0.0.1"
    port: int = 8000
    streamable_http_path: str = "/mcp"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    transport: Literal["stdio", "http", "sse", "streamable-http"] = "stdio"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    log_enabled: bool = True
    debug: bool = False
    mask_error_details: bool = False
    client_log_level: str | None = None
    strict_input_validation: bool = False
    json_response: bool = False
    stateless_http: bool = False
    http_host_origin_protection: bool | Literal["auto"] = False
    http_allowed_hosts: list[str] | None = None
    http_allowed_origins: list[str] | None = None
    http_session_idle_timeout: float | str | None = "auto"
    show_server_banner: bool = True
    check_for_updates: Literal["stable", "prerelease", "off"] = "stable"
    deprecation_warnings: bool = True
    decorator_mode: Literal["function", "object"] = "function"
    mcp_camelcase_compat: bool = True
    telemetry_mode: Literal["native", "propagation_only", "off"] = "native"
    enable_rich_logging: bool = True
    enable_rich_tracebacks: bool = False
    server_dependencies: list[str] = Field(default_factory=list)
    mounted_components_raise_on_load_error: bool = False
    ssrf_trust_proxy: bool = False
    oauth_encryption_key: str | None = None
    client_raise_first_exceptiongroup_error: bool = True
    client_init_timeout: float | None = None
    client_disconnect_timeout: float = 5
    test_mode: bool = False
    docket: DocketSettings = Field(default_factory=DocketSettings)

    def __init__(self, **values: Any) -> None:
        super().__init__(**{**_from_environment(), **values})

    @field_validator("log_level", mode="before")
    @classmethod
    def _read_level(cls, given: Any) -> Any:
        return given.upper() if isinstance(given, str) else given

    def get_setting(self, attr: str) -> Any:
        """Return a setting; the names of nested ones have ``__``."""
        owner, name = self._owner(attr)
        return getattr(owner, name)

    def set_setting(self, attr: str, value: Any) -> None:
        """Set a setting; the names of nested ones have ``__``."""
        owner, name = self._owner(attr)
        setattr(owner, name, value)

    def _owner(self, attr: str) -> tuple[Any, str]:
        *parents, name = attr.split("__")
        owner: Any = self
        for parent in parents:
            if not hasattr(owner, parent):
                raise AttributeError(f"Setting {parent} does not exist.")
            owner = getattr(owner, parent)
        return owner, name


def _from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in os.environ.items():
        if name.upper().startswith(PREFIX):
            *parents, key = name[len(PREFIX) :].lower().split("__")
            owner = found
            for parent in parents:
                owner = owner.setdefault(parent, {})
            owner[key] = value
    return found


settings = Settings()
