"""Gateway: many servers of any revision as one server of every revision."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.gateway.browser_login import IssuerLogin
    from carrel.gateway.browser_pages import BrowserPages
    from carrel.gateway.gateway import Gateway
    from carrel.gateway.grants import Grants
    from carrel.gateway.isolation import IsolatedProvider
    from carrel.gateway.sessions import SessionLimits
    from carrel.gateway.tool_search import ToolSearch

__all__ = [
    "BrowserPages",
    "Gateway",
    "Grants",
    "IsolatedProvider",
    "IssuerLogin",
    "SessionLimits",
    "ToolSearch",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.gateway.browser_login": ("IssuerLogin",),
    "carrel.gateway.gateway": ("Gateway",),
    "carrel.gateway.grants": ("Grants",),
    "carrel.gateway.isolation": ("IsolatedProvider",),
    "carrel.gateway.sessions": ("SessionLimits",),
    "carrel.gateway.tool_search": ("ToolSearch",),
    "carrel.gateway.browser_pages": ("BrowserPages",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
