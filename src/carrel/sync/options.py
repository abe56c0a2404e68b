"""Options of synchronous hosts and of their calls, by keyword; handlers may be plain functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from carrel.client import options as asynchronous
from carrel.sync.handlers import AnyHandlers, async_handlers

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.client.extensions import ClientExtension
    from carrel.client.handlers import Progress
    from carrel.client.retry import Retries
    from carrel.client.session import LogReceiver
    from carrel.transports.client.options import HTTPOptions, ProcessOptions
    from carrel.wire.base import ClientCapabilities, LoggingLevel

__all__ = ["CallOptions", "ClientOptions", "async_call_options", "async_client_options"]


class CallOptions(TypedDict, total=False):
    """Options of one call; ``Client.read_resource`` explains them."""

    timeout: float | None
    progress: Progress | None
    meta: Mapping[str, Any] | None
    handlers: AnyHandlers | None
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
    handlers: AnyHandlers | None
    log: LogReceiver | None
    log_level: LoggingLevel | None
    extensions: Sequence[ClientExtension]
    cache: Cache | None
    fetch_web: bool
    http: HTTPOptions | None
    process: ProcessOptions | None


def async_call_options(options: CallOptions) -> asynchronous.CallOptions:
    """Return options for an asynchronous call."""
    return cast("asynchronous.CallOptions", _with_handlers(dict(options)))


def async_client_options(options: ClientOptions) -> asynchronous.ClientOptions:
    """Return options for an asynchronous client."""
    return cast("asynchronous.ClientOptions", _with_handlers(dict(options)))


def _with_handlers(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "handlers": async_handlers(options["handlers"])} if "handlers" in options else options
