"""Serving a server on a transport, for ``Server.run`` and ``Server.run_async``."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.server.options import check_options

if TYPE_CHECKING:
    from carrel.transports.server.application import HasEndpoint
    from carrel.transports.server.options import RunOptions, ServeOptions

__all__ = ["check_level", "run", "run_async"]

#: Transports of ``run``: "streamable-http" is another name of "http"; "sse" adds the transport of 2024-11-05.
TRANSPORTS = ("stdio", "http", "streamable-http", "sse")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
log = Log("carrel")


def run(
    app: HasEndpoint, name: str, transport: str, options: RunOptions, *, exposes_errors: bool, level: str | None
) -> None:
    """Serve on stdio or HTTP, in a new event loop.

    Raises:
        ConfigError: the transport is unknown, or does not take these options.
    """
    transport, given = _prepare(name, transport, options, exposes_errors=exposes_errors, default_level=level)
    if transport == "stdio":
        from carrel.transports.server import stdio

        if sys.stdin is not None and sys.stdin.isatty():
            sys.stderr.write(f"{name!r} waits for an application on standard input; Ctrl-C stops it\n")
        stdio.run(app)
    else:
        from carrel.transports.server import uvicorn

        uvicorn.serve(app, **given)


async def run_async(
    app: HasEndpoint, name: str, transport: str, options: RunOptions, *, exposes_errors: bool, level: str | None
) -> None:
    """Serve in the running event loop, on stdio or HTTP.

    Raises:
        ConfigError: the transport is unknown, or does not take these options.
    """
    transport, given = _prepare(name, transport, options, exposes_errors=exposes_errors, default_level=level)
    if transport == "stdio":
        from carrel.transports.server import stdio

        await stdio.run_async(app)
    else:
        from carrel.transports.server import uvicorn

        await uvicorn.serve_async(app, **given)


def _prepare(
    name: str, transport: str, given: RunOptions, *, exposes_errors: bool, default_level: str | None
) -> tuple[str, ServeOptions]:
    """Check the arguments of ``run``, and return the transport ("stdio" or "http") and the options of HTTP.

    Logs a warning if other machines may get the messages of exceptions.

    Raises:
        ConfigError: the transport is unknown, or does not take these options.
    """
    if transport not in TRANSPORTS:
        raise ConfigError(f"transport must be {', '.join(map(repr, TRANSPORTS))}, not {transport!r}")
    options: dict[str, Any] = dict(given)
    level = options.pop("log_level", None) or default_level
    if level is not None:
        _log_to_stderr(level)
    if transport == "stdio":
        if options:
            raise ConfigError(f"stdio takes no options but log_level: {', '.join(options)}")
        return "stdio", {}
    from carrel.transports.addresses import is_loopback
    from carrel.transports.server.http import StreamableHTTP
    from carrel.transports.server.options import TLSOptions
    from carrel.transports.server.uvicorn import serve_async

    known = {
        *(serve_async.__kwdefaults__ or ()),
        *(StreamableHTTP.__init__.__kwdefaults__ or ()),
        *TLSOptions.__annotations__,
        "log_level",
    }
    check_options("run()", options, known)
    if transport == "sse":
        options.setdefault("sse_path", "/sse")
    options.setdefault("on_started", partial(_greet, name, options.get("sse_path")))
    host = options.get("host", "127.0.0.1")
    if exposes_errors and not is_loopback(host):
        log.warning(
            "listening on %s, where other machines may reach it, without mask_errors=True: "
            "callers are told the messages of all exceptions that tools raise",
            host or "all addresses",
        )
    return "http", cast("ServeOptions", options)


def _greet(name: str, sse_path: str | None, url: str) -> None:
    """Print where the server listens, and how to connect to it, to standard error."""
    from carrel.server.greeting import greeting

    sys.stderr.write(greeting(name, url, sse_path))
    sys.stderr.flush()


def check_level(level: str) -> None:
    """Check the name of a log level.

    Raises:
        ConfigError: there is no such level.
    """
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise ConfigError(f"log_level must be {', '.join(LEVELS).lower()}, not {level!r}")


def _log_to_stderr(level: str) -> None:
    """Log the records of ``level`` and above to standard error.

    Raises:
        ConfigError: there is no such level.
    """
    check_level(level)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(level.upper())
