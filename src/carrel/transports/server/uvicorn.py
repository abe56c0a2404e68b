"""HTTP server for ``run("http")``: serves Streamable HTTP with uvicorn."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from carrel.errors import ConfigError
from carrel.transports import process
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.client_certificates import ClientCertificates
from carrel.transports.server.connections import Connections, more_descriptors, most_connections
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.tls import TLS, TLSFiles, TLSListener

if TYPE_CHECKING:
    from carrel.transports.server.options import EndpointOptions, SecureEndpointOptions, ServeOptions

__all__ = ["serve", "serve_async"]

#: Graceful shutdown: seconds that requests in progress get to finish after SIGTERM or SIGINT.
GRACE = 5

#: Listen backlog of the sockets: connections that wait to be accepted.
BACKLOG = 2048

#: How many connections are accepted at a time before the first is checked: each takes a file descriptor.
AT_ONCE = 8

#: Additional file descriptors that the process requests, beyond the maximum number of connections.
MORE_DESCRIPTORS = 2000

MISSING = "HTTP needs uvicorn and httptools: pip install 'carrel[http]'"
ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104


def serve(app: HasEndpoint, **options: Unpack[ServeOptions]) -> None:
    """Serve ``app`` over HTTP in a new event loop, until SIGTERM or SIGINT. Takes the options of ``serve_async``.

    Raises:
        ConfigError: uvicorn is not installed, the address cannot be listened on, or a proxy is not an address.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigError(MISSING) from None
    try:
        process.run(serve_async(app, **options), uvicorn.Config("").get_loop_factory())
    except KeyboardInterrupt:
        pass


async def serve_async(
    app: HasEndpoint,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: str | Iterable[str] = (),
    trusted_proxies: str | Iterable[str] = (),
    on_started: Callable[[str], None] | None = None,
    **options: Unpack[SecureEndpointOptions],
) -> None:
    """Serve ``app`` over HTTP on ``host`` and ``port`` until SIGTERM or SIGINT.

    ``on_started`` is called with the URL of the endpoint once the server accepts connections; port 0 takes a free one.
    ``trusted_proxies`` are addresses and networks of reverse proxies, whose ``X-Forwarded-For`` or ``Forwarded`` names
    the client for limits. ``certificate``, ``key`` and ``client_ca`` are files (``TLSFiles``); with ``client_ca`` and
    without ``authorization``, the principal of a caller is the subject of its certificate. For all other options see
    ``StreamableHTTP``. SIGTERM, SIGINT and cancellation end streams gracefully; then this function returns.

    Raises:
        ConfigError: uvicorn is not installed, the address cannot be listened on, a proxy is not an address, or a file
            of the certificate cannot be used.
    """
    try:
        import uvicorn

        from carrel.transports.server.http_protocol import LimitedProtocol
    except ImportError:
        raise ConfigError(MISSING) from None

    proxies = TrustedProxies(trusted_proxies)
    files = TLSFiles.take(options)
    tls = None if files is None else TLS(files)
    if files is not None and files.client_ca is not None and options.get("authorization") is None:
        options["authorization"] = ClientCertificates()
    names = [allowed_hosts] if isinstance(allowed_hosts, str) else list(allowed_hosts)
    endpoint = StreamableHTTP(
        app,
        path=path,
        allowed_hosts=[*names, *([] if host in ANYWHERE else [host])],
        **cast("EndpointOptions", options),
    )

    class Server(uvicorn.Server):
        """uvicorn server that ends streams before it waits for connections, and does not re-raise signals."""

        async def startup(self, sockets: list[Any] | None = None) -> None:
            await endpoint.start()
            await super().startup(sockets if tls is None else [])
            for listener in listeners:
                listener.listen(BACKLOG)
                if tls is not None:
                    secure = TLSListener(listener, tls, table, proxies)
                    secure.accept(partial(protocol, config=config, server_state=self.server_state, app_state={}))
                    self.servers.append(secure)  # type: ignore[arg-type]
            if tls is not None:
                await tls.start()
            table.watch()
            if on_started is not None:
                shown = f"[{host}]" if ":" in host else host or "127.0.0.1"
                scheme = "http" if tls is None else "https"
                on_started(f"{scheme}://{shown}:{listeners[0].getsockname()[1]}{'/' + path.strip('/')}")

        async def shutdown(self, sockets: list[Any] | None = None) -> None:
            endpoint.end_streams()
            late = asyncio.get_running_loop().call_later(GRACE, endpoint.cancel)
            await super().shutdown(sockets)
            late.cancel()
            table.stop()
            if tls is not None:
                await tls.stop()
            await endpoint.stop()

        def handle_exit(self, sig: int, frame: Any) -> None:
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True

    wanted = app.endpoint.limits.max_connections
    with more_descriptors(wanted + MORE_DESCRIPTORS):
        table = Connections(app.endpoint.limits, most_connections(wanted))
        app.endpoint.gauges["connections"] = table.__len__
        protocol = partial(LimitedProtocol, table, proxies)
        config = uvicorn.Config(
            endpoint,
            http=protocol,  # type: ignore[arg-type]
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE + 1,
            ws="none",
            backlog=AT_ONCE,
        )
        listeners = listen(host, port)
        server = Server(config)
        serving = asyncio.ensure_future(server.serve(listeners))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            await asyncio.wait([serving])
            raise
        finally:
            for listener in listeners:
                listener.close()


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of ``host``, on the same port.

    Raises:
        ConfigError: there is no such host, or the port is taken or not allowed.
    """
    listeners: list[socket.socket] = []
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):  # UnicodeError: invalid host name
        raise ConfigError(f"cannot listen on {host}: there is no such host") from None
    for family, _, _, _, (name, _, *more) in found:
        address = (name, listeners[0].getsockname()[1] if listeners else port, *more)
        try:
            listener = socket.create_server(address, family=family, backlog=BACKLOG)
            # Connections inherit it. asyncio sets it only for sockets that name their protocol, and without it the end
            # of a response waits for the client's acknowledgement of its beginning: 40 ms.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listeners.append(listener)
        except OSError as error:
            problem = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # for example, no IPv6
                break
    if problem is None or (listeners and problem.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)):
        return listeners
    for listener in listeners:
        listener.close()
    if problem.errno == errno.EADDRINUSE:
        raise ConfigError(f"cannot listen on {host}: port {port} is in use")
    raise ConfigError(f"cannot listen on {host} port {port}: {os.strerror(problem.errno or 0)}")
