"""uvicorn server of an endpoint: listeners with or without TLS, the limits of connections, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import uvicorn

from carrel.transports.server.connections import Connections
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.http_protocol import FIRST_REQUEST, LimitedProtocol
from carrel.transports.server.listening import BACKLOG
from carrel.transports.server.options import GRACE
from carrel.transports.server.tls import TLS, TLSListener

__all__ = ["EndpointServer"]

#: How many connections are accepted at a time before the first is checked: each takes a file descriptor.
AT_ONCE = 8


class EndpointServer(uvicorn.Server):
    """uvicorn server that ends streams before it waits for connections, and does not re-raise signals.

    Args:
        endpoint: the ASGI application. The server starts and stops it.
        listeners: sockets to accept connections from.
        table: the table of all connections.
        proxies: trusted reverse proxies, whose headers name the client.
        tls: certificates, or None for plain HTTP.
        on_started: called once the server accepts connections.
        grace: seconds that requests in progress get to finish after SIGTERM or SIGINT.
    """

    def __init__(
        self,
        endpoint: StreamableHTTP,
        listeners: Sequence[socket.socket],
        table: Connections,
        proxies: TrustedProxies,
        *,
        tls: TLS | None,
        on_started: Callable[[], None],
        grace: float = GRACE,
    ) -> None:
        protocol = partial(LimitedProtocol, table, proxies)
        super().__init__(
            uvicorn.Config(
                endpoint,
                http=protocol,  # type: ignore[arg-type]
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=grace + 1,  # type: ignore[arg-type]
                ws="none",
                backlog=AT_ONCE,
            )
        )
        self._endpoint = endpoint
        self._listeners = listeners
        self._table = table
        self._proxies = proxies
        self._tls = tls
        self._protocol = protocol
        self._on_started = on_started
        self._grace = grace

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._endpoint.start()
        await super().startup(list(self._listeners) if self._tls is None else [])
        for listener in self._listeners:
            listener.listen(BACKLOG)
            if self._tls is not None:
                secure = TLSListener(listener, self._tls, self._table, self._proxies)
                secure.accept(partial(self._protocol, config=self.config, server_state=self.server_state, app_state={}))
                self.servers.append(secure)  # type: ignore[arg-type]
        if self._tls is not None:
            await self._tls.start()
        self._table.watch()
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._table.ending = True
        loop = asyncio.get_running_loop()
        self._endpoint.end_streams()
        await self._accept_last()
        timers = [
            loop.call_later(2 * FIRST_REQUEST, self._endpoint.end_streams),
            loop.call_later(self._grace, self._endpoint.cancel),
        ]
        tasks = loop.create_task(self._endpoint.finish_tasks(self._grace))
        await super().shutdown(sockets)
        while not tasks.done() and not self.force_exit:
            await asyncio.wait((tasks,), timeout=0.1)
        tasks.cancel()
        for timer in timers:
            timer.cancel()
        self._table.stop()
        if self._tls is not None:
            await self._tls.stop()
        await self._endpoint.stop()

    async def _accept_last(self) -> None:
        """Close the listeners, after accepting the connections that the kernel would reset then."""
        if self._tls is not None:
            return
        loop = asyncio.get_running_loop()
        make = partial(self._protocol, config=self.config, server_state=self.server_state, app_state={})
        waiting: list[socket.socket] = []
        last = [listener.dup() for listener in self._listeners if listener.fileno() >= 0]
        for server in self.servers:
            server.close()
        for listener in last:
            listener.setblocking(False)
            with listener, contextlib.suppress(OSError):
                waiting.extend(listener.accept()[0] for _ in range(BACKLOG))
        for connection in waiting:
            await loop.connect_accepted_socket(make, connection)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
