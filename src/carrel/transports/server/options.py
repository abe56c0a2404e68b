"""Options of servers over HTTP, by keyword."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from carrel.transports.server.authorizer import Authorizer

__all__ = [
    "GRACE",
    "ASGIOptions",
    "EndpointOptions",
    "RunOptions",
    "SecureEndpointOptions",
    "ServeOptions",
    "TLSOptions",
]

#: Graceful shutdown: seconds that requests in progress get to finish after SIGTERM or SIGINT.
GRACE = 5.0


class EndpointOptions(TypedDict, total=False):
    """Options of the endpoint on any address; ``StreamableHTTP`` explains them."""

    allowed_origins: str | Iterable[str]
    keep_alive: float
    patience: float
    sse_path: str | None
    authorization: Authorizer | None


class ASGIOptions(EndpointOptions, total=False):
    """Options of ``Server.asgi``; ``StreamableHTTP`` explains them."""

    allowed_hosts: str | Iterable[str]


class TLSOptions(TypedDict, total=False):
    """PEM files of a server with TLS, which are read again when they change; ``TLSFiles`` explains them."""

    certificate: str | PathLike[str] | None
    key: str | PathLike[str] | None
    client_ca: str | PathLike[str] | None


class SecureEndpointOptions(EndpointOptions, TLSOptions, total=False):
    """Options of the endpoint, and of TLS."""


class ServeOptions(ASGIOptions, TLSOptions, total=False):
    """Options of ``Server.run`` over HTTP; ``serve_async`` explains them."""

    host: str
    port: int
    path: str
    trusted_proxies: str | Iterable[str]
    grace: float
    listeners: Sequence[socket.socket] | None
    on_started: Callable[[str], None] | None


class RunOptions(ServeOptions, total=False):
    """Options of ``Server.run``; stdio takes ``log_level`` only."""

    log_level: str
