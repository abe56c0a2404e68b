"""Server whose author answers each request with a handler."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

__all__ = ["NotificationOptions", "Server"]

if TYPE_CHECKING:
    from carrel.compat.mcp.server.lowlevel.server import NotificationOptions, Server
else:
    names = {"NotificationOptions": "server", "Server": "server", "helper_types": "helper_types", "server": "server"}
    __getattr__ = lazily(__name__, names)
