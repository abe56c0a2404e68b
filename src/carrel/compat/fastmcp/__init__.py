"""Mirror of the package ``fastmcp`` 2.x and 3.x. Names are imported on first use."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.settings import settings
from carrel.compat.lazy import lazily

NAMES = {
    "Client": "client",
    "Context": "server.context",
    "FastMCP": "server.server",
    "Image": "utilities.types",
    **{module: module for module in ("client", "exceptions", "prompts", "resources", "server", "tools", "utilities")},
}

__version__ = "3.4.10"
__all__ = ["settings", *NAMES]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
