"""Options of servers over HTTP, by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from carrel.transports.server.authorizer import Authorizer

__all__ = ["ASGIOptions", "EndpointOptions", "RunOptions", "ServeOptions"]


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


class ServeOptions(ASGIOptions, total=False):
    """Options of ``Server.run`` over HTTP; ``serve_async`` explains them."""

    host: str
    port: int
    path: str
    trusted_proxies: str | Iterable[str]
    on_started: Callable[[str], None] | None


class RunOptions(ServeOptions, total=False):
    """Options of ``Server.run``; stdio takes ``log_level`` only."""

    log_level: str
