"""Options of clients and of their calls, by keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.client.extensions import ClientExtension
    from carrel.client.handlers import Handlers, Progress
    from carrel.client.retry import Retries
    from carrel.client.session import LogReceiver
    from carrel.transports.client.options import HTTPOptions, ProcessOptions
    from carrel.wire.base import ClientCapabilities, LoggingLevel

__all__ = ["CallOptions", "ClientOptions"]


class CallOptions(TypedDict, total=False):
    """Options of one call; ``Client.read_resource`` explains them."""

    timeout: float | None
    progress: Progress | None
    meta: Mapping[str, Any] | None
    handlers: Handlers | None
    user_data: object
    capabilities: ClientCapabilities | None


class ClientOptions(TypedDict, total=False):
    """Options of ``Client`` except its name, which explains them."""

    version: str | None
    title: str | None
    revision: str | None
    timeout: float | None
    patience: float
    retries: Retries | None
    handlers: Handlers | None
    log: LogReceiver | None
    log_level: LoggingLevel | None
    extensions: Sequence[ClientExtension]
    cache: Cache | None
    fetch_web: bool
    http: HTTPOptions | None
    process: ProcessOptions | None
