"""Settings of a server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from carrel.compat.mcp.server.transport_security import TransportSecuritySettings

__all__ = ["Settings", "SettingsOptions", "settings_of"]

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
LOCAL = ("127.0.0.1", "localhost", "::1")


class Settings(BaseModel):
    """Settings of a server, which programs may change until it runs."""

    debug: bool = False
    log_level: LogLevel = "INFO"
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int = 4 * 1024 * 1024
    session_idle_timeout: float | None = 1800.0
    max_sessions: int | None = 10_000
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: list[str] = []
    lifespan: Lifespan | None = None
    auth: Any = None
    transport_security: TransportSecuritySettings | None = None


class SettingsOptions(TypedDict, total=False):
    """Settings as arguments of ``FastMCP``."""

    debug: bool
    log_level: LogLevel
    host: str
    port: int
    mount_path: str
    sse_path: str
    message_path: str
    streamable_http_path: str
    json_response: bool
    stateless_http: bool
    max_request_body_size: int
    session_idle_timeout: float | None
    max_sessions: int | None
    warn_on_duplicate_resources: bool
    warn_on_duplicate_tools: bool
    warn_on_duplicate_prompts: bool
    dependencies: Collection[str]
    lifespan: Lifespan | None
    auth: Any
    transport_security: TransportSecuritySettings | None


def settings_of(options: SettingsOptions) -> Settings:
    """Return the settings that arguments give. On this machine only, hosts and origins of others are refused.

    Raises:
        TypeError: there is no such setting.
    """
    unknown = [name for name in options if name not in Settings.model_fields]
    if unknown:
        raise TypeError(f"FastMCP.__init__() got an unexpected keyword argument {unknown[0]!r}")
    given: dict[str, Any] = {**options}
    if "dependencies" in given:
        given["dependencies"] = list(given["dependencies"])
    settings = Settings(**given)
    if settings.transport_security is None and settings.host in LOCAL:
        names = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
        settings.transport_security = TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        )
    return settings
