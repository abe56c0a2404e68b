"""``carrel serve``: serves folders, files and skills, on stdio or over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING

from carrel.cli.logs import FORMATS, LEVELS, configure
from carrel.cli.options import (
    PAGE_SIZE,
    Parser,
    add_limit_option,
    add_sharing_options,
    add_source_flags,
    read_limits,
    sources_of,
)
from carrel.cli.source_flags import SourceFlags
from carrel.cli.targets import Targets, default_name, read_targets
from carrel.errors import ConfigError, MCPError

if TYPE_CHECKING:
    import argparse

    from carrel.catalog.provider import Provider
    from carrel.cli.serve_file import ServeFile
    from carrel.limits import Limits
    from carrel.server.app import Server
    from carrel.sources.registry import Source

__all__ = ["parser", "run"]

SUMMARY = "Share folders, files, skills and more with AI applications: every file is a resource, live."
EXAMPLES = """\
examples:
  carrel serve ./notes                          on stdio, for an application that starts it
  carrel serve ./notes --http 8000              over HTTP, on this machine only
  carrel serve ./docs ./src --exclude '*.min.js' --name project
  carrel serve --skills ./skills                skills for agents: directories with a SKILL.md
"""
INSTALL_HINT = "pip install 'carrel[serve]'"
SSE_PATH = "/sse"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
SAMPLE = 200


def parser(others: Iterable[Source] = ()) -> tuple[Parser, SourceFlags]:
    """Return the argument parser of ``carrel serve``, with the flags of Carrel's own sources and of ``others``."""
    reader = Parser("serve", SUMMARY, epilog=EXAMPLES)
    reader.add_argument(
        "targets", metavar="TARGET", nargs="*", help="what to share: a folder, a file, or a URL of a source (see below)"
    )
    reader.add_argument(
        "--config", metavar="FILE", help="a file in TOML with what to share, and its options (docs/serve.md)"
    )
    add_sharing_options(reader)
    group = reader.add_argument_group("HTTP")
    group.add_argument(
        "--http",
        metavar="[HOST:]PORT",
        help=f"listen for HTTP, on {LOOPBACK[0]} unless a host is given; port 0 is any free one (default: stdio)",
    )
    group.add_argument("--path", metavar="PATH", help="the path of the URL (default: /mcp)")
    group.add_argument(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help="accept requests sent to this name, besides this machine's own; may be repeated",
    )
    group.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="accept requests from web pages of this origin, for example https://app.example; may be repeated",
    )
    group.add_argument(
        "--sse",
        action="store_true",
        help=f"serve old applications too, which know only the deprecated HTTP+SSE transport, at {SSE_PATH}",
    )
    group.add_argument(
        "--tokens",
        metavar="FILE",
        help="let in only who has a token whose hash is in this file; python -m carrel.security NAME makes one",
    )
    group.add_argument(
        "--trusted-proxy",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="a reverse proxy, or a network of them, whose X-Forwarded-For or Forwarded names the client whose limits "
        "hold; may be repeated",
    )
    add_limit_option(reader)
    group = reader.add_argument_group("logs, on standard error")
    group.add_argument(
        "--log-format", choices=FORMATS, default=FORMATS[0], help="text for people, or JSON lines (default: text)"
    )
    group.add_argument(
        "--log-level", choices=LEVELS, default="warning", help="the least that is told (default: warning)"
    )
    return reader, add_source_flags(reader, others)


def run(arguments: list[str]) -> int:
    """Run ``carrel serve`` until the client disconnects (stdio) or Ctrl-C (HTTP).

    Raises:
        ConfigError: wrong use, a path that cannot be shared, a port in use, or a missing package.
    """
    reader, flags = parser(sources_of(arguments))
    options = reader.parse_intermixed_args(arguments)
    configure(options.log_format, options.log_level)
    hosts = (options.allow_host, options.allow_origin, options.trusted_proxy)
    if options.http is None and any((options.path, *hosts, options.sse, options.tokens)):
        raise ConfigError("--path, --allow-host, --allow-origin, --trusted-proxy, --sse and --tokens need --http")
    settings, folder = None, ""
    if options.config is not None:
        from carrel.cli.serve_file import read_serve_file

        file = os.path.abspath(os.path.expanduser(options.config))  # noqa: PTH100, PTH111
        settings, folder = read_serve_file(file), os.path.dirname(file)  # noqa: PTH120
        apply_settings(settings, options)
    targets = read_targets(options, flags, settings.targets() if settings is not None else (), folder)
    if not targets:
        raise ConfigError("say what to share: a path, a URL, or --skills FOLDER (see carrel serve --help)")
    for path in targets.places("file", "skills"):
        if is_empty(path):
            warn(f"{path} is empty so far")
    try:
        app, providers = assemble(targets, options, settings.limits if settings is not None else None)
        if options.http is None:
            if sys.stdin is not None and sys.stdin.isatty():
                warn("waiting for an application on standard input; to look at it yourself, add --http 8000")
            app.run()
        else:
            serve_http(app, providers, targets, options)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("carrel"):
            raise
        raise ConfigError(f"sharing this way needs the package {error.name}: {INSTALL_HINT}") from error
    return 0


def is_empty(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except NotADirectoryError:
        return False


def apply_settings(settings: ServeFile, options: argparse.Namespace) -> None:
    """Fill in from a configuration file what the command line does not say."""
    for key in ("name", "tools", "page_size"):
        if getattr(options, key) is None:
            setattr(options, key, getattr(settings, key))


def assemble(targets: Targets, options: argparse.Namespace, limits: Limits | None) -> tuple[Server, list[Provider]]:
    """Create the server that shares the targets. Return its providers, too."""
    from carrel import Server, __version__, sources

    app = Server(
        options.name or default_name([*targets.shared, *targets.skills]),
        __version__,
        page_size=options.page_size or PAGE_SIZE,
        limits=read_limits(options.limit, limits),
        mask_errors=True,
    )
    others = [target for target in targets if target.scheme != "skills"]
    providers = [sources.open(target.place, **target.options) for target in others]
    for provider in providers:
        app.add_provider(provider)
    app.skills()  # also without skills: it lets clients list directories
    for target in targets:
        if target.scheme == "skills":
            app.skills(target.place, **target.options)
    if options.tools is not False:
        app.add_resource_tools()
    return app, providers


def serve_http(app: Server, providers: list[Provider], targets: Targets, options: argparse.Namespace) -> None:
    """Serve HTTP until the process is stopped; print the startup message once the server listens.

    Raises:
        ConfigError: the address is invalid, or the server cannot listen on it.
    """
    import asyncio

    host, port = read_address(options.http)
    check_address(host, port)
    greeting: list[asyncio.Task[None]] = []
    path = "/" + (options.path or "/mcp").strip("/")

    def greet(url: str) -> None:
        reachable = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        old = f"{reachable.removesuffix(path)}{SSE_PATH}" if options.sse else None
        greeting.append(
            asyncio.get_running_loop().create_task(say_welcome(app, providers, reachable, targets, old, options.tokens))
        )

    authorization = None
    if options.tokens is not None:
        from carrel.security import StaticTokens

        authorization = StaticTokens(options.tokens)
    elif host not in LOOPBACK:
        warn(f"listening on {host}, where other machines may reach it, without authentication")
    app.run(
        "http",
        host=host,
        port=port,
        path=path,
        allowed_hosts=options.allow_host,
        allowed_origins=options.allow_origin,
        sse_path=SSE_PATH if options.sse else None,
        authorization=authorization,
        trusted_proxies=options.trusted_proxy,
        on_started=greet,
    )


async def say_welcome(
    app: Server, providers: list[Provider], url: str, targets: Targets, old: str | None, tokens: str | None
) -> None:
    """Print the startup message, with a shared resource as the example."""
    from carrel.catalog.provider import Request
    from carrel.cli.welcome import choose, welcome

    example = None
    for provider in providers:
        try:
            page = provider.list_resources(Request(limit=SAMPLE))
            found = await page if isawaitable(page) else page
        except MCPError:
            continue
        example = example or choose(found.items)
    sys.stderr.write(welcome(app.name, url, targets.shared, example, old, targets.skills, tokens))
    sys.stderr.flush()


def read_address(text: str) -> tuple[str, int]:
    """Parse PORT or HOST:PORT; an IPv6 host is in brackets.

    Raises:
        ConfigError: the text is neither.
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"--http {text}: an address is [HOST:]PORT, an IPv6 host in brackets: [::1]:8000")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"--http {text}: {port!r} is not a port (0 to 65535)")
    return host or LOOPBACK[0], int(port)


def check_address(host: str, port: int) -> None:
    """Check that the address can be bound, before the server is set up.

    Raises:
        ConfigError: the address is in use, not permitted, or not of this machine.
    """
    import errno
    import socket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            if sys.platform != "win32":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (socket.gaierror, UnicodeError):  # UnicodeError: for invalid host names
        raise ConfigError(f"--http: there is no host {host}") from None
    except PermissionError:
        raise ConfigError(f"port {port} may not be used by you; ports from 1024 up may") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} is in use; choose another, or --http 0 for any free one") from None
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def warn(text: str) -> None:
    sys.stderr.write(f"carrel: {text}\n")
