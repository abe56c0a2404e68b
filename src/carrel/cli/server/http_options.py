"""Options of the commands that serve over HTTP, and the address that they listen on."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from carrel.cli.terminal.messages import print_stderr
from carrel.cli.values import seconds
from carrel.errors import ConfigError
from carrel.transports.addresses import is_loopback

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.cli.config.settings import HTTPSettings
    from carrel.transports.server.authorizer import Authorizer
    from carrel.transports.server.options import ServeOptions

__all__ = [
    "SSE_PATH",
    "add_http_options",
    "add_workers_option",
    "check_address",
    "reachable_url",
    "read_http_options",
    "warn",
    "warn_of_terminal",
]

SSE_PATH = "/sse"
MAX_WORKERS = 256


def add_http_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--http`` and its related options."""
    group = parser.add_argument_group("HTTP")
    group.add_argument(
        "--http",
        metavar="[HOST:]PORT",
        help="listen for HTTP, on 127.0.0.1 unless a host is given; port 0 is any free one (default: stdio)",
    )
    group.add_argument("--stdio", action="store_true", help="serve on stdio, even if a configuration file has a port")
    group.add_argument("--path", metavar="PATH", help="the path of the URL (default: /mcp)")
    group.add_argument(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help="accept requests to this host name, in addition to the names of this machine; may be repeated",
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
        default=None,
        help=f"also serve the deprecated HTTP+SSE transport, for old applications, at {SSE_PATH}",
    )
    group.add_argument(
        "--tokens",
        metavar="FILE",
        help="accept only callers with a token whose hash is in this file; carrel token add NAME --file FILE makes one",
    )
    group.add_argument(
        "--state",
        metavar="URL",
        help="share sessions, streams and tasks with other servers in Redis or Valkey: redis://HOST, rediss://HOST, "
        "unix://PATH, redis+sentinel://HOST,HOST/SERVICE or redis+cluster://HOST,HOST. "
        "CARREL_STATE_KEYS has the key that encrypts them; write the password in the URL as ${env:NAME}",
    )
    group.add_argument(
        "--trusted-proxy",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="a reverse proxy, or a network of proxies, whose X-Forwarded-For or Forwarded header identifies the "
        "client; may be repeated",
    )
    group.add_argument(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        help="how long requests and tasks may take to finish after SIGTERM or Ctrl-C (default: 5)",
    )
    group.add_argument("--certificate", metavar="FILE", help="serve HTTPS with the certificate chain in this PEM file")
    group.add_argument("--key", metavar="FILE", help="the PEM file of the private key, if it is in another file")
    group.add_argument(
        "--client-ca",
        metavar="FILE",
        help="accept only clients with a certificate of the authorities in this PEM file (mutual TLS)",
    )
    group.add_argument(
        "--behind-proxy",
        action="store_true",
        default=None,
        help="allow an address other than this machine without TLS: a reverse proxy has TLS, and only it reaches the "
        "address",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="allow an address that other machines reach without TLS or without authorization",
    )


def add_workers_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--workers``."""
    parser.add_argument(
        "--workers",
        metavar="N",
        type=number_of_processes,
        help="with --http: serve with N processes that share sessions, streams and tasks; auto: one for each core "
        "(default: 1)",
    )


def number_of_processes(text: str) -> int:
    """Parse a number of workers; 0 is one for each core.

    Raises:
        ArgumentTypeError: the text is not a number from 1 to 256, nor auto.
    """
    if text == "auto":
        return 0
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_WORKERS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_WORKERS}, nor auto")


def read_http_options(configuration: Configuration) -> ServeOptions | None:
    """Return the options of ``Server.run("http")`` for these settings, or None for stdio.

    Raises:
        ConfigError: a flag requires ``--http``, the address is invalid, or the server cannot listen on it.
    """
    http = configuration.settings.http
    if http.certificate is None and (http.key is not None or http.client_ca is not None):
        raise ConfigError(f"{configuration.where('http')}: key and client_ca need a certificate")
    if http.port is None:
        flags = [origin.text for path, origin in configuration.origins.items() if path.startswith(("http.", "auth."))]
        needing = [flag for flag in flags if flag.startswith("--") and flag != "--stdio"]
        if needing:
            raise ConfigError(f"these options need --http: {', '.join(needing)}")
        return None
    check_address(http.host, http.port)
    authorization = read_authorization(configuration)
    if authorization is None and http.client_ca is not None:
        from carrel.transports.server.client_certificates import ClientCertificates

        authorization = ClientCertificates()
    if not (is_loopback(http.host) or http.behind_proxy or http.insecure):
        check_exposure(http, is_authorized=authorization is not None)
    if authorization is None and not is_loopback(http.host):
        warn(f"listening on {http.host}, where other machines may reach it, without authentication")
    options: ServeOptions = {
        "host": http.host,
        "port": http.port,
        "path": http.path,
        "allowed_hosts": http.allowed_hosts,
        "allowed_origins": http.allowed_origins,
        "sse_path": SSE_PATH if http.sse else None,
        "authorization": authorization,
        "trusted_proxies": http.trusted_proxies,
        "grace": http.grace,
        "keep_alive": http.keep_alive,
        "patience": http.patience,
        "certificate": http.certificate,
        "key": http.key,
        "client_ca": http.client_ca,
    }
    return options


def check_exposure(http: HTTPSettings, *, is_authorized: bool) -> None:
    """Check that a server which other machines reach has TLS and authorization.

    Raises:
        ConfigError: TLS or authorization is missing.
    """
    missing = [
        *([] if http.certificate is not None else ["TLS (--certificate FILE)"]),
        *([] if is_authorized else ["authorization (--tokens FILE, or [auth])"]),
    ]
    if missing:
        raise ConfigError(
            f"other machines may reach {http.host}, and the server has no {' and no '.join(missing)}. "
            f"Add {'it' if len(missing) == 1 else 'both'}; or write --behind-proxy, if only a reverse proxy with TLS "
            "reaches this address; or write --insecure"
        )


def read_authorization(configuration: Configuration) -> Authorizer | None:
    """Return the authorization configured by these settings, or None to allow all callers.

    Raises:
        ConfigError: a setting is invalid, or a package is missing.
    """
    auth = configuration.settings.auth
    given = configuration.given("auth")
    if auth.tokens is None and auth.issuer is None:
        if given:
            raise ConfigError(f"{configuration.where('auth')}: [auth] needs tokens or an issuer")
        return None
    from carrel.security import Authorization, Introspection, StaticTokens

    try:
        if auth.tokens is not None:
            return StaticTokens(given.pop("tokens"), **given)
        if auth.introspection is None:
            return Authorization(**given)
        return Introspection(**given, **configuration.given("auth.introspection"))
    except ConfigError as error:
        raise ConfigError(f"{configuration.where('auth')}: [auth] {error}") from error


def check_address(host: str, port: int) -> None:
    """Check that the address can be bound, before the server is set up.

    Raises:
        ConfigError: the address is in use, not permitted, or not an address of this machine.
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
        raise ConfigError(f"port {port} requires privileges; choose a port from 1024 up") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} is in use; choose another, or --http 0 for any free one") from None
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def reachable_url(url: str) -> str:
    """Return a URL in which the wildcard address is replaced by an address of this machine."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def warn_of_terminal(source: int = 0, *, hint: str | None = "to look at it yourself, add --http 8000") -> None:
    """Tell a user at a terminal that the server is waiting for a client application, not for typed input.

    ``source`` is the file descriptor of standard input; ``hint`` says what to do.
    """
    if os.isatty(source):
        warn("waiting for an application on standard input" + ("" if hint is None else f"; {hint}"))


def warn(text: str) -> None:
    print_stderr(f"carrel: {text}")
