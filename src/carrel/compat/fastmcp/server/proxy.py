"""Proxies: servers in front of other ones."""

from carrel.compat.fastmcp.server.providers.remote import (
    ProxyClient,
    ProxyPrompt,
    ProxyProvider,
    ProxyResource,
    ProxyTemplate,
    ProxyTool,
    StatefulProxyClient,
    client_factory_of,
)
from carrel.compat.fastmcp.server.server import FastMCPProxy, create_proxy

__all__ = [
    "FastMCPProxy",
    "ProxyClient",
    "ProxyPrompt",
    "ProxyProvider",
    "ProxyResource",
    "ProxyTemplate",
    "ProxyTool",
    "StatefulProxyClient",
    "client_factory_of",
    "create_proxy",
]
