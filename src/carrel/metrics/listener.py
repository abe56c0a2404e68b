"""HTTP listener of metrics and health, in a separate thread: it answers even if the event loop does not."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client.exposition import choose_encoder

from carrel.errors import ConfigError
from carrel.metrics.serving import ServingThread, accept_on
from carrel.transports.addresses import read_address
from carrel.transports.server.origin import LOOPBACK, host_name

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["MetricsListener"]

#: Seconds that a client may take for its request.
PATIENCE = 10.0
PLAIN = "text/plain; charset=utf-8"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def take(self, listener: socket.socket) -> None:
        """Accept connections on a socket that listens already."""
        accept_on(self, listener)
        self.server_address = self.server_name, self.server_port = listener.getsockname()[:2]
        self.setup_environ()


class _ServerIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Metrics(Protocol):
    """Metrics of a server: a registry of prometheus_client, or the metrics of all workers."""

    def collect(self) -> Iterable[Any]:
        """Return the metrics."""


class Health(Protocol):
    """Health and readiness of a server."""

    @property
    def is_stuck(self) -> bool:
        """Whether the event loop has been blocked for a long time."""

    def readiness(self) -> tuple[bool, list[str]]:
        """Return whether the server is ready, and its problems."""


class MetricsListener(ServingThread):
    """Listener with /metrics (OpenMetrics, or the text format of Prometheus), /healthz and /readyz.

    The Host header of a request must be an address, localhost, ``host``, or one of ``allowed_hosts`` ("*": any name),
    so that no web page reads the metrics by DNS rebinding. ``listener`` is a socket that listens already, if other
    processes accept its connections too.

    Raises:
        ConfigError: the address cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: Metrics,
        state: Health,
        allowed_hosts: Iterable[str] = (),
        *,
        listener: socket.socket | None = None,
    ) -> None:
        self._hosts = {*LOOPBACK, host.lower(), *(name.lower() for name in allowed_hosts)}
        self._registry = registry
        self._state = state
        kind: type[_Server] = _ServerIPv6 if ":" in host else _Server
        try:
            if listener is None:
                server = make_server(host, port, self._answer, kind, handler_class=_Handler)
            else:
                server = kind((host, port), _Handler, bind_and_activate=False)
                server.take(listener)
                server.set_app(self._answer)
        except OSError as error:
            raise ConfigError(f"[metrics] cannot listen on {host} port {port}: {error.strerror}") from None
        super().__init__(server, "carrel-metrics")
        self.port: int = server.server_port

    def _is_allowed(self, host: str) -> bool:
        name = host_name(host)
        return "*" in self._hosts or name in self._hosts or (name != "" and read_address(name.strip("[]")) is not None)

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, status, kind, body = environ["PATH_INFO"], "200 OK", PLAIN, b"ok\n"
        if not self._is_allowed(environ.get("HTTP_HOST", "")):
            status, body = "421 Misdirected Request", b"this name is not one of this server's (see allowed_hosts)\n"
        elif environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            status, body = "405 Method Not Allowed", b"only GET and HEAD\n"
        elif path == "/metrics":
            encode, kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))
            body = encode(cast("CollectorRegistry", self._registry))  # it calls nothing but ``collect``
        elif path == "/healthz":
            if self._state.is_stuck:
                status, body = "503 Service Unavailable", b"the event loop does not run\n"
        elif path == "/readyz":
            kind, (ready, problems) = "application/json", self._state.readiness()
            status = "200 OK" if ready else "503 Service Unavailable"
            body = json.dumps({"ready": ready, "problems": problems}).encode()
        else:
            status, body = "404 Not Found", b"there are /metrics, /healthz and /readyz\n"
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
