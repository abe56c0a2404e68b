"""Host of servers in this process, for tests of what is above the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carrel import Client, Server
from carrel.host import Host
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer


class MemoryServer(HostedServer):
    """Server of a host that is reached in memory."""

    app: Server[Any]

    async def new_client(self, **options: Any) -> Client:
        options.pop("http", None)
        return Client(self.app, **options)


class MemoryHost(Host):
    """Host of servers by name."""

    def __init__(self, apps: Mapping[str, Server[Any]], **options: Any) -> None:
        self._apps = apps
        super().__init__([ServerConfig(name=name, command=f"/bin/{name}") for name in apps], **options)

    def _server(self, config: ServerConfig) -> HostedServer:
        server = MemoryServer(
            config, self._options, self._on_change, inputs=self._inputs, start_timeout=self._start_timeout
        )
        server.app = self._apps[config.name]
        return server
