"""Which transport is meant by a server, a path, a URL or a configuration."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from carrel.compat.fastmcp import server
from carrel.compat.fastmcp.client.session import Session
from carrel.compat.fastmcp.client.transports.base import ClientTransport
from carrel.compat.fastmcp.client.transports.http import SSETransport, StreamableHttpTransport
from carrel.compat.fastmcp.client.transports.memory import FastMCPTransport
from carrel.compat.fastmcp.client.transports.stdio import NodeStdioTransport, PythonStdioTransport, StdioTransport
from carrel.compat.fastmcp.server.transforms.tool_transform import ToolTransform
from carrel.compat.fastmcp.tools.tool_transform import ToolTransformConfig

__all__ = ["MCPConfigTransport", "infer_transport"]

#: The package of servers, whose names are imported when a configuration has several servers.
_servers: Any = server


class MCPConfigTransport(ClientTransport):
    """Transport to the servers of a configuration (``{"mcpServers": {…}}``): several ones are behind a proxy.

    Raises:
        ValueError: there is no server in it.
    """

    def __init__(self, config: Any, name_as_prefix: bool = True) -> None:
        self.config = config
        self.name_as_prefix = name_as_prefix
        given = config if isinstance(config, dict) else config.to_dict()
        self._servers: dict[str, Any] = given.get("mcpServers", given)
        if not self._servers:
            raise ValueError("No MCP servers defined in the config")
        self.transport = self._one(next(iter(self._servers))) if len(self._servers) == 1 else self._all()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(config='{self.config}')>"

    def _one(self, name: str) -> ClientTransport:
        server = self._servers[name]
        server = server if isinstance(server, dict) else server.model_dump(exclude_none=True)
        changes = server.get("tools"), server.get("include_tags"), server.get("exclude_tags")
        if not any(changes):
            return _transport_of(server)
        return FastMCPTransport(_changed(_servers.create_proxy(_transport_of(server), name=name), *changes))

    def _all(self) -> ClientTransport:
        router = _servers.FastMCP("MCPRouter")
        for name in self._servers:
            proxy = _servers.create_proxy(self._one(name), name=f"Proxy-{name}")
            router.mount(proxy, name if self.name_as_prefix else None)
        return FastMCPTransport(router)

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the server, or with the proxy."""
        async with self.transport.connect_session(**options) as session:
            yield session


def _changed(proxy: Any, tools: Any, include_tags: Any, exclude_tags: Any) -> Any:
    """Return a proxy with the changes of a configuration."""
    if tools:
        read = ToolTransformConfig.model_validate
        proxy.add_transform(ToolTransform({name: read(each) for name, each in tools.items()}))
    if include_tags:
        proxy.enable(tags=set(include_tags), only=True)
    if exclude_tags:
        proxy.disable(tags=set(exclude_tags))
    return proxy


def _transport_of(server: dict[str, Any]) -> ClientTransport:
    if "url" in server:
        wanted = server.get("transport") or server.get("type")
        kind = SSETransport if wanted == "sse" or (not wanted and _is_sse(server["url"])) else StreamableHttpTransport
        return kind(server["url"], server.get("headers"), server.get("auth"))
    return StdioTransport(server["command"], server.get("args", []), server.get("env"), server.get("cwd"))


def _is_sse(url: str) -> bool:
    return bool(re.search(r"/sse(/|\?|&|$)", urlparse(url).path))


def infer_transport(given: Any) -> ClientTransport:
    """Return the transport for a server in this process, a file, a URL or a configuration.

    Raises:
        ValueError: the type of the target is not supported.
    """
    if isinstance(given, ClientTransport):
        return given
    if hasattr(given, "_mcp_server"):  # a server of ``fastmcp``, or of ``mcp`` 1.x
        return FastMCPTransport(given)
    text = str(given)
    if isinstance(given, dict) or hasattr(given, "mcpServers"):
        return MCPConfigTransport(given)
    if isinstance(given, str | Path) and Path(text).exists():
        if text.endswith(".py"):
            return PythonStdioTransport(text)
        if text.endswith(".js"):
            return NodeStdioTransport(text)
        raise ValueError(f"Unsupported script type: {given}")
    if text.startswith("http"):
        return SSETransport(text) if _is_sse(text) else StreamableHttpTransport(text)
    raise ValueError(f"Could not infer a valid transport from: {given}")
