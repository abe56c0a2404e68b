"""HTTP server for ``run("http")``: serves Streamable HTTP with uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Unpack, cast

from carrel.errors import ConfigError
from carrel.transports import process
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.client_certificates import ClientCertificates
from carrel.transports.server.connections import Connections, more_descriptors, most_connections
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.listening import listen
from carrel.transports.server.options import GRACE
from carrel.transports.server.tls import TLS, TLSFiles

if TYPE_CHECKING:
    from carrel.transports.server.options import EndpointOptions, SecureEndpointOptions, ServeOptions

__all__ = ["serve", "serve_async"]

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


def endpoint_url(scheme: str, host: str, port: int, path: str) -> str:
    """Return the URL of an endpoint that listens on ``host``; an empty one is all addresses of this machine."""
    shown = f"[{host}]" if ":" in host else host or "127.0.0.1"
    return f"{scheme}://{shown}:{port}/{path.strip('/')}"


async def serve_async(
    app: HasEndpoint,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: str | Iterable[str] = (),
    trusted_proxies: str | Iterable[str] = (),
    grace: float = GRACE,
    listeners: Sequence[socket.socket] | None = None,
    on_started: Callable[[str], None] | None = None,
    **options: Unpack[SecureEndpointOptions],
) -> None:
    """Serve ``app`` over HTTP on ``host`` and ``port`` until SIGTERM or SIGINT.

    ``on_started`` is called with the URL of the endpoint once the server accepts connections; port 0 takes a free one.
    ``trusted_proxies`` are addresses and networks of reverse proxies, whose ``X-Forwarded-For`` or ``Forwarded`` names
    the client for limits. ``listeners`` are sockets that listen already, in place of new ones; they are closed at the
    end. ``certificate``, ``key`` and ``client_ca`` are files (``TLSFiles``); with ``client_ca`` and
    without ``authorization``, the principal of a caller is the subject of its certificate. For all other options see
    ``StreamableHTTP``.

    SIGTERM, SIGINT and cancellation end streams gracefully; then this function returns. Requests get ``grace`` seconds
    to finish, and so do tasks if the server shares its state with others, which have their results.

    Raises:
        ConfigError: uvicorn is not installed, the address cannot be listened on, a proxy is not an address, or a file
            of the certificate cannot be used.
    """
    try:
        from carrel.transports.server.http_server import EndpointServer
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

    def started() -> None:
        if on_started is not None:
            scheme = "http" if tls is None else "https"
            assert listeners is not None
            on_started(endpoint_url(scheme, host, listeners[0].getsockname()[1], path))

    wanted = app.endpoint.limits.max_connections
    with more_descriptors(wanted + MORE_DESCRIPTORS):
        table = Connections(app.endpoint.limits, most_connections(wanted))
        app.endpoint.gauges["connections"] = table.__len__
        listeners = listen(host, port) if listeners is None else list(listeners)
        server = EndpointServer(endpoint, listeners, table, proxies, tls=tls, on_started=started, grace=grace)
        serving = asyncio.ensure_future(server.serve(list(listeners)))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            await asyncio.wait([serving])
            raise
        finally:
            for listener in listeners:
                listener.close()
