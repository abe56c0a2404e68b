"""``carrel run``: serves a server written in Python, on stdio or over HTTP."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.config.read import Configuration, read_configuration
from carrel.cli.options import Parser, add_config_option, add_limit_option
from carrel.cli.server.http_options import add_http_options, reachable_url, read_http_options, warn, warn_of_terminal
from carrel.cli.server.load import load, ready, redirect, requires_compat
from carrel.cli.server.logs import add_log_options, configure
from carrel.cli.server.script import enter
from carrel.cli.server.sharing import Targets, app_location, read_targets, share
from carrel.cli.source_flags import SourceFlags
from carrel.cli.target import ServerLocation, read_location
from carrel.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from carrel.server.app import Server
    from carrel.transports.server.options import ServeOptions

__all__ = ["add_target", "parser", "run"]

SUMMARY = "Serve the carrel.Server in a Python file or module."
EXAMPLES = """\
examples:
  carrel run server.py                          on stdio, for an application that starts it
  carrel run server.py --http 8000              over HTTP, on this machine only
  carrel run server.py:shop                     one of several servers in a file
  carrel run package.module:make_app            the server that a function returns, async or not
  carrel run --compat program.py ARGUMENTS      a program for mcp or fastmcp, as it is
  carrel run --compat program.py --http 8000    the server of such a program, over HTTP
  carrel run --compat -- mcp-server-time        a command that a package installs beside Carrel
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel run``."""
    reader = Parser("run", SUMMARY, epilog=EXAMPLES)
    add_target(reader, nargs="?")
    add_config_option(reader)
    reader.add_argument(
        *("--compat", "--compat=mcp1", "--compat=mcp2"),
        action="store_true",
        help="the file is a program for mcp or fastmcp. As the first option, run it as it is, with the arguments "
        "after FILE; with FILE:NAME or --http, serve the server that it makes. Its imports and requirements tell "
        "which version it is for; --compat=mcp1 and --compat=mcp2 do too",
    )
    add_http_options(reader)
    add_limit_option(reader)
    add_log_options(reader)
    return reader


def add_target(reader: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the argument that names the server."""
    reader.add_argument(
        "target",
        metavar="FILE[:NAME]",
        nargs=nargs,
        help="a Python file, or a module by its dotted name; NAME is a Server in it, or a function that returns one "
        "(default: the only Server, or make_app)",
    )


def run(arguments: list[str], generation: int | None = None) -> int:
    """Serve until the client disconnects (stdio) or Ctrl-C (HTTP).

    ``generation`` is the major version of ``mcp`` that a program was written for, if ``--compat`` has a value.

    Raises:
        ConfigError: invalid arguments, code that cannot be loaded, a port in use, or a missing package.
    """
    options = read_options(arguments)
    configuration = read_configuration(options, targeted=options.target is not None)
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    location = read_location(options.target) if options.target is not None else configured_location(configuration)
    flag = "--compat" if generation is None else f"--compat=mcp{generation}"
    enter(location.file, ["run", *(flag if word == "--compat" else word for word in arguments)])
    if options.compat:
        redirect("--compat runs programs for mcp and fastmcp", location, generation)
    targets = read_targets(Namespace(targets=[], skills=[]), SourceFlags([]), configuration)
    http = read_http_options(configuration)
    if http is None:
        serve_stdio(location, configuration, targets)
    else:
        serve_http(location, configuration, targets, http)
    return 0


def read_options(arguments: list[str]) -> Namespace:
    """Parse the arguments. If a program for ``mcp`` or ``fastmcp`` is given further arguments, explain ``--compat``.

    Raises:
        ConfigError: the arguments are invalid.
    """
    options, unknown = parser().parse_known_args(arguments)
    if unknown and options.target is not None and requires_compat(read_location(options.target)):
        raise ConfigError(
            f"unrecognized arguments: {' '.join(unknown)}; {options.target} is a program for mcp or fastmcp: to run it "
            f"with its own arguments, write carrel run --compat {options.target} ARGUMENTS"
        )
    return parser().parse_args(arguments) if unknown else options


def configured_location(configuration: Configuration) -> ServerLocation:
    """Return the location of the server named in the configuration.

    Raises:
        ConfigError: no server is configured, or the file does not exist.
    """
    file = configuration.settings.app.file
    if file is None:
        hint = (
            f'[app] of {configuration.file}: file = "server.py"' if configuration.file else "a carrel.toml with [app]"
        )
        raise ConfigError(f"no server given: name a file, a module, or {hint} (see carrel run --help)")
    if configuration.folder and configuration.folder not in sys.path:
        sys.path.insert(0, configuration.folder)  # to import a module
    return read_location(app_location(configuration, file))


def serve_stdio(location: ServerLocation, configuration: Configuration, targets: Targets) -> None:
    """Serve on stdio. The standard streams are claimed for the protocol before the user's code is imported."""
    from carrel.transports import process
    from carrel.transports.server import stdio

    source, sink = stdio.claim()
    loaded = load(location)

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets)
        warn_of_terminal(source)
        await stdio.serve(app, source, sink)

    process.run(serve())


def serve_http(location: ServerLocation, configuration: Configuration, targets: Targets, http: ServeOptions) -> None:
    """Serve over HTTP until the process is stopped."""
    from carrel.server.app import Server
    from carrel.transports import process

    loaded = load(location)
    if isinstance(loaded, Server):  # ``run`` uses the fastest event loop that is installed
        prepare(loaded, configuration, targets)
        report_url(loaded, http)
        loaded.run("http", **http)
        return

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets)
        report_url(app, http)
        await app.run_async("http", **http)

    process.run(serve())


def prepare(app: Server[Any], configuration: Configuration, targets: Targets) -> None:
    """Apply the limits and the sources of the configuration to a server."""
    app.limits = msgspec.structs.replace(app.limits, **configuration.given("limits"))
    share(app, targets)


def report_url(app: Server[Any], http: ServeOptions) -> None:
    """Print the URL of a server after it has started listening."""
    http["on_started"] = lambda url: warn(f"{app.name} is ready at {reachable_url(url)}")
