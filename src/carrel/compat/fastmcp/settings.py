"""Settings for all servers and clients of a process, from the environment: ``FASTMCP_HOST``, ``FASTMCP_PORT``, …"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Settings", "settings"]

PREFIX = "FASTMCP_"


@dataclass
class Settings:
    """Settings that programs read or set. Other environment variables of ``fastmcp`` are not looked at."""

    host: str = "127.0.0.1"
    port: int = 8000
    streamable_http_path: str = "/mcp"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    transport: str = "stdio"
    log_level: str = "INFO"
    log_enabled: bool = True
    debug: bool = False
    mask_error_details: bool = False
    strict_input_validation: bool = False
    json_response: bool = False
    stateless_http: bool = False
    show_server_banner: bool = True
    deprecation_warnings: bool = True
    enable_rich_tracebacks: bool = False
    client_raise_first_exceptiongroup_error: bool = True
    client_init_timeout: float | None = None
    test_mode: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            given = os.environ.get(PREFIX + field.name.upper())
            if given is not None:
                setattr(self, field.name, _converted(given, field.default))


def _converted(given: str, default: Any) -> Any:
    """Return the value of an environment variable, in the type of the default."""
    if isinstance(default, bool):
        return given.strip().lower() in ("1", "true", "yes", "on")
    if default is None:
        return float(given)
    return type(default)(given)


settings = Settings()
