"""Mirror of the package ``fastmcp`` 3.x and 4.x. Names are imported on first use."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.exceptions import FastMCPDeprecationWarning
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.utilities.logging import configure_logging
from carrel.compat.generation import fastmcp_version
from carrel.compat.lazy import lazily

NAMES = {
    "Client": "client",
    "ClientGroup": "client.group",
    "Context": "server.context",
    "FastMCP": "server.server",
    "FastMCPApp": "apps.app",
    "Image": "utilities.types",
    **{module: module for module in ("client", "exceptions", "prompts", "resources", "server", "tools", "utilities")},
}

__version__ = fastmcp_version()
__all__ = ["FastMCPDeprecationWarning", "settings", *NAMES]

if settings.log_enabled:
    configure_logging(settings.log_level)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
