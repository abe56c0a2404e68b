"""Which transport is meant by a server, a path, a URL or a configuration."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from datetime import timedelta
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


class TimedTransport(ClientTransport):
    """Transport to a server whose requests have a time limit of their own, in seconds; 0 stands for none."""

    def __init__(self, inner: ClientTransport, seconds: float) -> None:
        self._inner = inner
        self._limit = timedelta(seconds=seconds) if seconds else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def set_auth(self, auth: Any) -> None:
        """Set the credentials."""
        self._inner.set_auth(auth)

    def set_verify(self, verify: Any) -> None:
        """Set how certificates are checked."""
        self._inner.set_verify(verify)

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the server."""
        async with self._inner.connect_session(**{**options, "read_timeout_seconds": self._limit}) as session:
            yield session


class MCPConfigTransport(ClientTransport):
    """Transport to the servers of a configuration (``{"mcpServers": {…}}``): several ones are behind a proxy.

    Raises:
        ValueError: there is no server in it.
    """

    def __init__(self, config: Any, name_as_prefix: bool = True) -> None:
        self.config = config
        self.name_as_prefix = name_as_prefix
        given = config if isinstance(config, dict) else {"mcpServers": config.mcpServers}
        self._servers: dict[str, Any] = given.get("mcpServers", given)
        self._clients: list[Any] = []
        if not self._servers:
            raise ValueError("No MCP servers defined in the config")
        self.transport = self._one(next(iter(self._servers))) if len(self._servers) == 1 else self._all()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(config='{self.config}')>"

    def _one(self, name: str) -> ClientTransport:
        entry = self._servers[name]
        server = entry if isinstance(entry, dict) else entry.model_dump(exclude_none=True)
        transport = _transport_of(server) if isinstance(entry, dict) else entry.to_transport()
        if server.get("timeout") is not None:
            transport = TimedTransport(transport, server["timeout"] / 1000)
        changes = server.get("tools"), server.get("include_tags"), server.get("exclude_tags")
        if not any(changes):
            return transport
        return FastMCPTransport(_changed(self._proxy(transport, name), *changes))

    def _proxy(self, transport: ClientTransport, name: str) -> Any:
        """Return a server in front of a server, whose requests have the time limit of the client."""
        self._clients.append(_servers.proxy.ProxyClient(transport))
        return _servers.create_proxy(self._clients[-1], name=name)

    def _all(self) -> ClientTransport:
        router = _servers.FastMCP("MCPRouter")
        for name in self._servers:
            proxy = self._proxy(self._one(name), f"Proxy-{name}")
            router.mount(proxy, name if self.name_as_prefix else None)
        return FastMCPTransport(router)

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the server, or with the proxy."""
        for client in self._clients:
            client.limit_requests(options.get("read_timeout_seconds"))
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
    if hasattr(given, "_mcp_server") or hasattr(given, "_lowlevel_server"):  # of ``fastmcp``, or ``mcp`` 1 or 2
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
